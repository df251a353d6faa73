"""Encodings beside those of Hugging Face's transformers, which others have used for years."""

import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings
from transformers.models.llama.modeling_llama import (
    LlamaConfig,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention, T5Config
from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import (
    Wav2Vec2BertConfig,
    Wav2Vec2BertSelfAttention,
)

from carry.models import encodings
from carry.models.architectures.transformer import Transformer
from carry.models.encodings.sinusoidal import compute_sinusoids

IDS = torch.arange(300)[None]


def encoding_of(name, heads=4, head_width=16, **settings):
    """Return an encoding for a model of one layer, with weights as they are first."""
    kind = encodings.choose_encoding(name, "here")
    model = encodings.ModelSettings(width=heads * head_width, heads=heads)
    felt = kind(kind.Settings.parse(settings, "here"), model, encodings.IdRange(300))
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        felt.initialise(1.0)
    return felt


def causal(bias):
    """Return a bias where keys are not after the query."""
    return bias.masked_fill(torch.ones(bias.shape[-2:]).triu(1).bool(), 0.0)


@pytest.mark.parametrize("heads", range(1, 18))
def test_alibi_as_in_bloom_and_mpt(heads):
    """Theirs differ by a number for all keys of a query, which makes no difference to softmax."""
    bias = encoding_of("alibi", heads).bias(0, IDS[:, :40], IDS[:, :40])[0]
    bloom = build_alibi_tensor(torch.ones(1, 40), heads, torch.float32)
    mpt = build_mpt_alibi_tensor(heads, 40)
    for theirs in (bloom, mpt):
        expected = theirs - theirs.transpose(1, 2)
        torch.testing.assert_close(causal(bias), causal(expected))


def test_biases_as_in_t5():
    config = T5Config(d_model=64, d_kv=16, num_heads=4, is_decoder=True)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    t5 = encoding_of("t5")
    theirs.relative_attention_bias.weight.data.copy_(t5.biases)
    expected = theirs.compute_bias(300, 300)
    torch.testing.assert_close(causal(t5.bias(0, IDS, IDS)), causal(expected), rtol=0, atol=0)


def test_rotations_as_in_llama():
    parameters = {"rope_type": "default", "rope_theta": 10_000.0}
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, rope_parameters=parameters)
    query, key = torch.randn(2, 3, 4, 300, 16, generator=torch.Generator().manual_seed(0))
    expected = apply_rotary_pos_emb(query, key, *LlamaRotaryEmbedding(config)(query, IDS))
    rope = encoding_of("rope")
    for of, theirs in zip((query, key), expected, strict=True):
        torch.testing.assert_close(rope.rotate(of, IDS), theirs, rtol=1e-4, atol=1e-4)


def test_waves_as_in_distilbert():
    """Sines and cosines in turn, as in the paper; other models have all sines first."""
    expected = create_sinusoidal_embeddings(300, 64, torch.empty(300, 64))
    torch.testing.assert_close(compute_sinusoids(IDS[0], 64, 10_000.0), expected, rtol=0, atol=1e-4)


def test_vectors_beside_keys_as_in_wav2vec2_bert():
    """A whole layer of attention, whose keys have vectors by distance (and values have none)."""
    config = Wav2Vec2BertConfig(
        hidden_size=64, num_attention_heads=4, position_embeddings_type="relative_key",
        left_max_position_embeddings=5, right_max_position_embeddings=5,
        attn_implementation="eager",
    )  # fmt: skip
    theirs = Wav2Vec2BertSelfAttention(config).eval()
    shaw = encoding_of("shaw", clip=5)
    given = Transformer.Settings(
        width=64, heads=4, norm="none", feed_forward=False, final_norm=False
    )  # attention alone, whose logits are its features
    network = Transformer(given, 64, [shaw])
    network.logits.weight.data.copy_(torch.eye(64))
    (block,) = network.blocks
    parts = block.key_value.weight.chunk(2), block.key_value.bias.chunk(2)
    for linear, weight, bias in zip((theirs.linear_k, theirs.linear_v), *parts, strict=True):
        linear.load_state_dict({"weight": weight, "bias": bias})
    theirs.linear_q.load_state_dict(block.query.state_dict())
    theirs.linear_out.load_state_dict(block.output.state_dict())
    theirs.distance_embedding.weight.data.copy_(shaw.vectors[0])
    tokens = torch.randint(64, (2, 20), generator=torch.Generator().manual_seed(0))
    x, hidden = network.tokens(tokens), torch.full((20, 20), -torch.inf).triu(1)
    expected = x + theirs(x, attention_mask=hidden)[0]
    torch.testing.assert_close(network(tokens, [IDS]), expected, rtol=1e-4, atol=1e-5)
