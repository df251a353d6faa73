"""A second device that claims to be CUDA, and refuses operations on tensors of both devices.

Tensors on it are CPU tensors with a mark. The rules are those of CUDA: tensors without dimensions,
`copy_` and slice assignment may cross devices, and a tensor may be indexed by CPU tensors.
"""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
MARK = "_on_fake_device"
Tensor = torch.Tensor
GET_DEVICE, SET_DATA = Tensor.device.__get__, Tensor.data.__set__
MOVES = {Tensor.to, Tensor.cuda, Tensor.cpu}
READS = {
    Tensor.tolist, Tensor.item, Tensor.__int__, Tensor.__float__, Tensor.__bool__, Tensor.__len__,
    Tensor.__repr__, Tensor.copy_, torch._has_compatible_shallow_copy_type,
}  # fmt: skip
HOST_ONLY = {Tensor.numpy, Tensor.__array__}
IS_CUDA = Tensor.is_cuda.__get__


class MixedDevices(RuntimeError):
    """An operation that CUDA would refuse."""


class _AnyGenerator(type(torch.Generator)):
    def __instancecheck__(cls, value):
        return isinstance(value, torch._C.Generator)


class FakeGenerator(torch._C.Generator, metaclass=_AnyGenerator):
    """A generator that runs on the CPU and claims to be on its device."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls)
        made.claimed = torch.device(device)
        return made

    def __init__(self, device="cpu"):
        super().__init__()

    @property
    def device(self):
        return self.claimed


def list_tensors(values):
    """Yield the tensors within tuples, lists and dictionaries; much faster than `tree_flatten`."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple | list | dict):
        for value in values.values() if isinstance(values, dict) else values:
            yield from list_tensors(value)


def is_marked(tensor):
    return bool(getattr(tensor, MARK, False))


def set_mark(tensor, marked=True):
    setattr(tensor, MARK, marked)
    return tensor


def is_cuda(device):
    return device is not None and torch.device(device).type == "cuda"


class FakeDevice(TorchFunctionMode):
    """Inside the block tensors and generators of the device "cuda" are marked CPU tensors."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func == GET_DEVICE:
            return CUDA if is_marked(args[0]) else func(*args)
        if func == IS_CUDA:
            return is_marked(args[0])
        tensors = [*list_tensors((args, kwargs))]
        marked = any(map(is_marked, tensors))
        if func in MOVES:
            return self._move(func, args, kwargs)
        if func == SET_DATA:
            set_mark(args[0], is_marked(args[1]))
            return func(*args)
        if func in HOST_ONLY and marked:
            raise MixedDevices(f"{func.__name__}: a tensor on {CUDA}")
        if func in READS:
            return func(*args, **kwargs)
        if func in (Tensor.__getitem__, Tensor.__setitem__):
            self._check_index(func, *args)
        else:
            self._check(func, tensors)
        marked |= is_cuda(kwargs.get("device"))
        generator = kwargs.get("generator")
        if generator is not None:
            # Without a device and without tensors a function draws on the CPU.
            device = CUDA if marked else CPU
            if generator.device != device:
                name = func.__name__
                raise MixedDevices(f"{name}: generator on {generator.device}, not {device}")
        if "device" in kwargs:
            kwargs["device"] = "cpu"
        result = func(*args, **kwargs)
        return tree_map_only(Tensor, set_mark, result) if marked else result

    def _check(self, func, tensors):
        marks = {is_marked(tensor) for tensor in tensors if tensor.ndim}
        if len(marks) > 1:
            shapes = [(tuple(tensor.shape), is_marked(tensor)) for tensor in tensors]
            raise MixedDevices(f"{getattr(func, '__name__', func)}: {shapes}")

    def _check_index(self, func, tensor, index, *values):
        indices = [*list_tensors(index)]
        if not is_marked(tensor) and any(is_marked(x) and x.ndim for x in indices):
            raise MixedDevices(f"{func.__name__}: a CPU tensor indexed by a CUDA tensor")
        if indices:
            self._check(func, [tensor, *(x for x in values if isinstance(x, Tensor))])

    def _move(self, func, args, kwargs):
        tensor, rest = args[0], list(args[1:])
        marked = {Tensor.cpu: False, Tensor.cuda: True}.get(func, is_marked(tensor))
        for position, value in enumerate(rest):
            if isinstance(value, Tensor):
                marked = is_marked(value)
            elif isinstance(value, str | torch.device):
                marked, rest[position] = is_cuda(value), "cpu"
        if kwargs.get("device") is not None:
            marked, kwargs["device"] = is_cuda(kwargs["device"]), "cpu"
        moved = Tensor.to(tensor, *rest, **kwargs) if func is Tensor.to else tensor
        if moved is tensor and is_marked(tensor) != marked:
            moved = tensor.clone()
        return set_mark(moved, marked)
