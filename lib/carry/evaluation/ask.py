"""Ask a model one question and watch it answer, token by token."""

from __future__ import annotations

import pandas as pd
import torch

from carry.config.settings import SettingsError
from carry.evaluation.decoding import decode_greedily, written_ids
from carry.formats import ALPHABET, EOS, text
from carry.models.system import Start, System
from carry.tasks import to_digits
from carry.training.precision import training_in


@torch.inference_mode()
def ask(system: System, *operands: str | int, start: Start = "middle") -> pd.DataFrame:
    """Return what the model writes after a question of its task, token by token.

    Columns: what it has `read`, the token it `writes`, how `sure` it is (its probability), and the
    token that would be `due`.

    >>> from carry.evaluation.mock_models import Oracle
    >>> from carry.config.run_settings import make_run
    >>> ask(Oracle(make_run({"task": {"name": "addition"}})), 17, 25)["writes"].tolist()
    ['2', '4', '$']

    Raises:
        SettingsError: for operands that are not written with digits alone.
    """
    for name, number in enumerate(operands):
        if not (str(number).isascii() and str(number).isdigit()):
            raise SettingsError(
                f"operand {name}: {number!r} is not a number, expected digits alone"
            )
    texts = [str(number) for number in operands]
    if not system.task.leading_zeros:
        texts = [written.lstrip("0") or "0" for written in texts]
    problem = system.task.solve(*to_digits([texts]))
    response = decode_greedily(system, problem, start)
    written = system.format.write_open_ended(problem)
    asked = int(written.start[0])
    ended = (response[0] == EOS).nonzero()
    slots = int(ended[0]) + 1 if len(ended) else response.shape[1]
    tokens = torch.cat([written.tokens[:, :asked], response[:, :slots]], dim=1)
    if not system.format.marks_known_from_question:
        written = system.format.continued(problem, written, response[:, :slots])
    ids = written_ids(system, problem, written, start)
    with training_in("fp32", tokens.device):
        logits = system.network(tokens, ids)
    sure = logits[0, asked - 1 : -1].softmax(-1).gather(1, response[0, :slots, None])[:, 0]
    true = system.format.write(problem).tokens[0, asked:].tolist()
    return pd.DataFrame(
        {
            "read": [text(tokens[0, : asked + slot]) for slot in range(slots)],
            "writes": [ALPHABET[token] for token in response[0, :slots].tolist()],
            "sure": sure.tolist(),
            "due": [ALPHABET[true[slot]] if slot < len(true) else "" for slot in range(slots)],
        }
    )


def answer(system: System, steps: pd.DataFrame) -> str:
    """Return the answer that the steps of `ask` spell, its ones last.

    Where no answer is asked for it is what was written, up to its end.

    >>> from carry.evaluation.mock_models import Oracle
    >>> from carry.config.run_settings import make_run
    >>> oracle = Oracle(make_run({"task": {"name": "addition"}}))
    >>> answer(oracle, ask(oracle, 999, 2))
    '1001'
    """
    response = torch.tensor([[ALPHABET.index(token) for token in steps["writes"]]])
    read = [ALPHABET[token] for token in system.format.read(response)[0].tolist() if token != EOS]
    if not system.task.in_digits or not system.format.answers:
        return "".join(read)
    written = "".join(reversed(read))
    return written if system.task.leading_zeros else written.lstrip("0") or "0"
