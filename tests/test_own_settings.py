"""A user's own settings change neither what notebooks show and save, nor weights."""

import json
import multiprocessing
import os
import tempfile
from multiprocessing import connection

import matplotlib
import nbclient
import nbformat
import pandas as pd
import pytest
import torch
from matplotlib import pyplot as plt

from carry import plots
from carry.evaluation.trained_models import load_committed
from carry.exports import load_exported, write_model
from carry.jobs import pool
from carry.plots import style
from carry.runs import notebooks as runner

# A user's folder, by path; each of these once changed a notebook, or stopped it.
FILES = {
    ".config/matplotlib/matplotlibrc": "text.usetex: True\nsavefig.transparent: True\nno.key: 1\n",
    ".ipython/profile_default/startup/first.py": "print('hello')\n"
    "import pandas\npandas.set_option('display.precision', 1)\n",
    ".ipython/profile_default/ipython_kernel_config.py": "c = get_config()\n"
    "c.InlineBackend.figure_formats = {'svg'}\nc.InlineBackend.rc = {'figure.figsize': (1, 1)}\n",
    ".jupyter/jupyter_config.py": "this is no Python",
    "startup.py": "print('hello')\n",
}
KERNEL = {"argv": ["false", "{connection_file}"], "display_name": "Other", "language": "python"}
SHOWN = """
import os
import sys
import matplotlib
import pandas as pd
from matplotlib import pyplot as plt

figure, axes = plt.subplots(figsize=(2, 1))
axes.set_title("a title")
plt.show()
print(sys.executable, sys.flags.optimize, matplotlib.get_backend(), os.environ.get("MPLBACKEND"))
print(matplotlib.rcParams["savefig.transparent"], matplotlib.rcParams["text.usetex"])
pd.DataFrame({"a long name of a column": [1 / 3], "another long name of a column": [2 / 3]})
"""


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return a function that makes all settings of a user, in files and variables."""

    def make():
        home = tmp_path / "home"
        for name, text in FILES.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        for folder in (home / ".local/share/jupyter", home / "other"):
            (folder / "kernels/python3").mkdir(parents=True)
            (folder / "kernels/python3/kernel.json").write_text(json.dumps(KERNEL))
        long = home / ("x" * 100)  # too long for the sockets of kernels
        long.mkdir()
        variables = {"HOME": home, "JUPYTER_PATH": home / "other", "MPLBACKEND": "Agg"}
        variables |= {"TMPDIR": long, "PYTHONSTARTUP": home / "startup.py", "COLUMNS": 20}
        variables |= {"PYTHONOPTIMIZE": 2, "PYTHONHASHSEED": 1, "PYTHONSAFEPATH": 1}
        variables |= {"PYTHONWARNINGS": "always", "NO_COLOR": 1, "LC_ALL": "C", "TZ": "Asia/Tokyo"}
        variables |= {"MPLCONFIGDIR": "/proc/no", "JUPYTER_CONFIG_DIR": home / ".jupyter"}
        variables |= {"JUPYTER_RUNTIME_DIR": "/proc/no", "IPYTHONDIR": home / ".ipython"}
        monkeypatch.delenv("MATPLOTLIBRC")
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr("tempfile.tempdir", None)  # it is read again from TMPDIR

    return make


def test_settings_of_a_user_change_no_notebook(tmp_path, settings, capfd):
    source = tmp_path / "note.ipynb"
    cells = [nbformat.v4.new_code_cell(SHOWN)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), source)
    plain = runner.execute_notebook(source, tmp_path / "plain.ipynb", {}).read_bytes()
    settings()
    runner.refresh_notebook(source)  # its outputs have the warnings, too
    assert source.read_bytes() == plain and b"image/png" in plain and b"0.333333" in plain
    assert not capfd.readouterr().err
    assert os.environ["MPLBACKEND"] == "Agg", "the user's environment is as it was"


IN_JUPYTERLAB = """
from matplotlib import pyplot as plt
from carry import plots

plots.open_notebook("mcleish2024/how_far")
plt.plot([1, 2])
plt.show()
plt.rcParams["text.usetex"], plt.rcParams["axes.spines.top"]
"""


@pytest.mark.filterwarnings("ignore")  # of nbclient's event loop
def test_pictures_are_shown_in_our_style_also_in_a_jupyterlab_of_the_user(tmp_path, monkeypatch):
    """Its kernels have the user's environment."""
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\naxes.spines.top: True\n")
    monkeypatch.setenv("MATPLOTLIBRC", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(IN_JUPYTERLAB)])
    nbclient.execute(notebook, kernel_name="python3")
    shown, value = notebook.cells[0].outputs
    assert "image/png" in shown.data and value.data["text/plain"] == "(False, False)"


def test_the_environment_is_as_it_was_after_an_error(monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", "mine")
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError), runner.kernel_environment({"CARRY_PROGRESS": "off"}):
        assert "JUPYTER_PATH" not in os.environ
        raise ZeroDivisionError
    assert dict(os.environ) == before


def test_processes_meet_at_a_short_name_whatever_tmpdir_is(tmp_path, monkeypatch):
    long = str(tmp_path / ("x" * 100))
    monkeypatch.setattr("tempfile.tempdir", long)
    monkeypatch.delitem(multiprocessing.current_process()._config, "tempdir", raising=False)
    pool._place_sockets()
    assert len(connection.arbitrary_address("AF_UNIX")) < 100 and tempfile.gettempdir() == long


USERS = {
    "savefig.transparent": True,
    "font.size": 30,
    "axes.facecolor": "red",
    "lines.linewidth": 9,
}


@pytest.mark.usefixtures("closed_figures")
def test_a_matplotlibrc_changes_no_figure(tmp_path):
    table, saved = pd.DataFrame({"x": [1.0]}), []
    for users in ({}, USERS):
        with matplotlib.rc_context(users):
            plots.open_notebook("mcleish2024/how_far")
            figure, axes = plt.subplots()
            axes.plot([1, 2], [3, 5], label="a line")
            axes.legend()
            matplotlib.rcParams.update(users)
            saved.append(style.save_figure(figure, "lines", table, tmp_path).read_bytes())
            assert {key: matplotlib.rcParams[key] for key in users} == users, "it is left alone"
    assert saved[0] == saved[1]


@pytest.mark.parametrize("default", [torch.float64, torch.bfloat16])
def test_weights_are_loaded_in_float32_whatever_the_default_is(tmp_path, default):
    expected = load_committed("parity_relative_scratchpad").network.state_dict()
    write_model(load_committed("parity_relative_scratchpad"), tmp_path)
    torch.set_default_dtype(default)
    try:
        for system in (load_committed("parity_relative_scratchpad"), load_exported(tmp_path)):
            loaded = system.network.state_dict()
            assert all(torch.equal(loaded[name], expected[name]) for name in expected)
            assert {tensor.dtype for tensor in loaded.values()} == {
                tensor.dtype for tensor in expected.values()
            }
        assert torch.get_default_dtype() == default
    finally:
        torch.set_default_dtype(torch.float32)
