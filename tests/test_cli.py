"""The command: what it makes, and what it says when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress
from typer.testing import CliRunner, Result

import stillspace
from stillspace import Budget, PrivateRobustPCA, RobustPCA
from stillspace.cli import fit as fit_module
from stillspace.cli.app import app
from stillspace.cli.data import Format, read_table
from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.models import load_model
from stillspace.recipes import PRIVATE, ROBUST, Facts, make_plan

DATA = make_haystack(1234, 5, 2, inlier_noise=0.05, random_state=1)
NAMES = "height,weight,age,pulse,dose"


def write_csv(path: Path, X: np.ndarray, header: str | None = NAMES) -> Path:
    lines = [",".join(map(repr, row.tolist())) for row in X]
    path.write_text("\n".join([header, *lines] if header else lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "table.csv", DATA.X)


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


def fit(table: Path, *args: object, epsilon: float | None = 1.0, r: int = 2) -> Result:
    budget = () if epsilon is None else ("--epsilon", epsilon)
    return run("fit", table, "--components", r, *budget, "--out", table.parent / "m.npz", *args)


def assert_refused(result: Result, sentence: str, code: int = 2) -> None:
    """One sentence on stderr, nothing on stdout, no traceback."""
    assert result.exit_code == code
    assert result.stdout == ""
    assert sentence in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert isinstance(result.exception, SystemExit)


# --- fit -----------------------------------------------------------------------------------


def test_a_private_fit(table: Path) -> None:
    result = fit(table)
    assert result.exit_code == 0
    model = load_model(table.parent / "m.npz")
    assert isinstance(model, PrivateRobustPCA)
    assert model.privacy_.private
    assert 0.99 < model.privacy_.epsilon <= 1.0
    assert not hasattr(model, "feature_names_in_")  # a guessed header may be a row
    assert fit(table, "--header", "--force").exit_code == 0
    named = load_model(table.parent / "m.npz")
    assert list(named.feature_names_in_) == NAMES.split(",")
    right = np.linalg.qr((DATA.components / model.scale_).T)[0].T  # in the units of the fit
    # real noise: .005 in the median and at most .07 in 120 fits; a random subspace has about 2
    assert subspace_error(model.components_, right) < 0.5
    assert "(1, 1e-06)-differential privacy under replace-one" in result.stdout
    assert "auto: private PCA, then damped Newton steps with a late cut" in result.stdout
    assert str(table.parent / "m.npz") in result.stdout
    assert result.stderr == ""


def test_options_reach_the_estimator(table: Path) -> None:
    options = ["--delta", 1e-8, "--algorithm", "dp-ggd", "--n-iter", 7, "--rows-per-person", 2]
    vectors = ["--center", "0.1", "--scale", "1,2,3,4,5"]
    assert fit(table, *options, *vectors, epsilon=3.0).exit_code == 0
    model = load_model(table.parent / "m.npz")
    assert model.n_iter_ == 7
    assert model.privacy_.delta == 1e-8
    assert 2.9 < model.privacy_.epsilon <= 3.0
    assert {event.rows_per_person for event, _ in model.privacy_.event} == {2}
    np.testing.assert_array_equal(model.center_, np.full(5, 0.1))
    np.testing.assert_array_equal(model.scale_, [1, 2, 3, 4, 5])


def test_batch_size_reaches_the_plan(table: Path) -> None:
    result = fit(table, "--algorithm", "dp-sggd", "--n-iter", 3, "--batch-size", 100)
    assert result.exit_code == 0
    assert "about 100 rows each, drawn by poisson sampling" in result.stdout


def test_the_secret_number_of_rows_is_never_said(table: Path) -> None:
    result = fit(table, "--relation", "add-or-remove-one", "--public-size", 1000)
    assert result.exit_code == 0
    model = load_model(table.parent / "m.npz")
    assert model.privacy_.neighboring_relation == "add-or-remove-one"
    for text in (result.output, str(model.__dict__)):
        assert "1000" in text
        assert "1234" not in text


def test_missing_cells_are_taken(tmp_path: Path) -> None:
    X = DATA.X.copy()
    X[0, 2] = np.nan
    table = write_csv(tmp_path / "t.csv", X)
    table.write_text(table.read_text().replace("nan", "", 1))
    result = fit(table)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert fit(table, "--without-privacy", "--force", epsilon=None).exit_code == 0


def test_without_privacy_must_be_asked_for(table: Path) -> None:
    assert_refused(fit(table, epsilon=None), "Give --epsilon")
    assert_refused(fit(table, "--without-privacy"), "leave out --epsilon")
    secret = ("--relation", "add-or-remove-one")
    assert_refused(fit(table, "--without-privacy", *secret, epsilon=None), "leave out")
    assert not (table.parent / "m.npz").exists()
    result = fit(table, "--without-privacy", epsilon=None)
    assert result.exit_code == 0
    assert "No privacy is promised" in result.stdout
    assert isinstance(load_model(table.parent / "m.npz"), RobustPCA)


def test_warnings_are_one_line_and_do_not_stop_the_fit(table: Path) -> None:
    result = fit(table, "--delta", 0.01)
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: delta=0.01 is at least 1/n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--epsilon", "-1"], "--epsilon must be a number in (0, ∞), got -1.0."),
        (["--epsilon", "nan"], "--epsilon must be a number in (0, ∞), got nan."),
        (["--epsilon", "inf"], "--epsilon must be a number in (0, ∞), got inf."),
        (["--delta", "2"], "--delta must be a number in (0, 1), far below 1/n, got 2.0."),
        (["--delta", "1e-300"], "--delta must be at least 1e-30, got 1e-300"),
        (["--components", "9" * 5000], "--components must be a whole number of at least 1 or auto"),
        (["--components", "0"], "--components must be a whole number of at least 1 or auto"),
        (["--components", "٣"], "--components must be a whole number of at least 1 or auto"),
        (["--n-iter", "0"], "--n-iter must be a whole number of at least 1, got 0."),
        (["--n-iter", "9" * 400], "and below 2**62, got a whole number of 2**62 or more in size."),
        (["--batch-size", "-3"], "--batch-size must be a whole number of at least 1, got -3."),
        (["--rows-per-person", "0"], "--rows-per-person must be a whole number of at least 1"),
        (["--public-size", "100"], "--public-size is for --relation add-or-remove-one"),
        (["--radius", "nan"], "--radius must be a number in (0, ∞), got nan."),
        (["--sketch", "1"], "--sketch must be a whole number of at least 2 or auto or none"),
        (["--center", "inf"], "The numbers of --center must be finite, got 'inf'."),
        (["--center", "1,nan,3,4,5"], "The numbers of --center must be finite"),
        (["--algorithm", "magic"], "Unknown algorithm 'magic'; known: 'auto'"),
        (["--algorithm", "irls"], "'irls' is an algorithm of RobustPCA"),
        (["--components", "5"], "n_components must be a whole number in 1…4"),
        (["--relation", "add-or-remove-one"], "give --public-size"),
        (["--relation", "friends"], "--relation must be one of 'replace-one', 'add-or-remove-one'"),
        (["--algorithm", "dp-sggd", "--rows-per-person", "2"], "has no accountant"),
        (["--batch-size", "10"], "has no option 'batch_size'"),
        (["--center", "1,2"], "--center must hold one number, or 5, one per column; got 2."),
        (["--center", "pair"], "--center must be auto, private, pairs, median, none, one number"),
        (
            ["--scale", "pairs"],
            "--scale must be auto, private, none, one number, or one per column with commas",
        ),
        (["--summary", "variance"], "'certificate' without repetition, got 'variance'"),
        (["--scale", "0"], "The numbers of --scale must be positive and finite, got '0'."),
        (["--delimiter", "::"], "--delimiter must be one character"),
    ],
)
def test_wrong_options_get_one_sentence(table: Path, args: list[str], sentence: str) -> None:
    assert_refused(fit(table, *args), sentence)
    assert sorted(os.listdir(table.parent)) == ["table.csv"]


@pytest.mark.parametrize(
    "args",
    [
        ["--algorithm", "magic"],
        ["--summary", "variance"],
        ["--scale", "0"],
        ["--center", "inf"],
        ["--components", "0"],
        ["--delimiter", "::"],
    ],
)
def test_wrong_options_are_refused_before_the_table_is_read(
    table: Path, args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_read(*_: object, **__: object) -> None:
        pytest.fail("the table was read before the options were checked")

    monkeypatch.setattr(fit_module, "read_table", never_read)
    result = fit(table, *args)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        ["fit", "t.csv", "-r", "2", "-o", "m.npz", "--epsilon", "0"],
        ["fit", "t.csv", "-r", "2", "-o", "m.npz", "--epsilon", "1", "--delta", "0"],
        ["fit", "t.csv", "-r", "2", "-o", "m.npz", "--epsilon", "1", "--relation", "friends"],
        ["fit", "t.csv", "-r", "2", "-o", "m.npz", "--epsilon", "1", "--center", "inf"],
        ["plan", "-n", "100", "-d", "5", "-r", "2", "--epsilon", "0"],
        ["plan", "-n", "100", "-d", "5", "-r", "5", "--epsilon", "1"],
        ["audit", "dp-ggd", "--epsilon", "0"],
        ["audit", "dp-ggd", "--relation", "friends"],
    ],
)
def test_wrong_options_are_refused_before_a_library_is_imported(args: list[str]) -> None:
    code = (
        "import sys; from stillspace.cli.app import app\n"
        f"try: app({args!r})\n"
        "except SystemExit as end: assert end.code == 2, end.code\n"
        "assert not {'numpy', 'scipy', 'sklearn', 'numba'} & set(sys.modules)"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Error: ")
    assert args[-2] in done.stderr or "--components" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_successful_fit_never_says_error(table: Path) -> None:
    result = fit(table, epsilon=3.0)
    assert result.exit_code == 0
    assert "Accuracy:  Noise turned the directions by an estimated " in result.stdout
    assert "Error" not in result.output


def test_a_robust_fit_finds_its_components_and_centre(tmp_path: Path) -> None:
    data = make_haystack(400, 6, 2, inlier_ratio=0.7, center_shift=3.0, random_state=0)
    table = tmp_path / "shifted.csv"
    np.savetxt(table, data.X, delimiter=",")
    for args in ([], ["--center", "pairs"], ["--center", "median"]):
        out = ["--without-privacy", "--force", "--out", tmp_path / "m.npz"]
        result = run("fit", table, "--components", "auto", "--scale", "none", *out, *args)
        assert result.exit_code == 0, result.output
        assert "best of several starts" in result.stdout
        model = load_model(tmp_path / "m.npz")
        assert model.components_.shape == (2, 6)
        limit = 1e-2 if args == ["--center", "median"] else 1e-20
        assert subspace_error(model.components_, data.components) < limit
    result = run("fit", table, "--components", "2", *out, "--center", "none")
    assert not load_model(tmp_path / "m.npz").center_.any()
    assert result.exit_code == 0


@pytest.mark.parametrize("args", [["--components", "two"], ["--nonsense"]])
def test_options_that_do_not_parse(table: Path, args: list[str]) -> None:
    result = fit(table, *args)
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output


# --- files ---------------------------------------------------------------------------------


def test_an_existing_file_is_kept_without_force(table: Path) -> None:
    model = table.parent / "m.npz"
    model.write_text("precious")
    assert_refused(fit(table), "exists; give another --out, or --force")
    assert model.read_text() == "precious"
    assert fit(table, "--force").exit_code == 0
    assert load_model(model).privacy_.private


def test_a_failed_forced_fit_keeps_the_old_model(table: Path) -> None:
    model = table.parent / "m.npz"
    model.write_text("precious")
    assert_refused(fit(table, "--force", "--algorithm", "magic"), "Unknown algorithm")
    assert model.read_text() == "precious"


def test_the_data_are_never_overwritten(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "m.npz", DATA.X)
    assert_refused(fit(table, "--force"), "the data itself")
    assert table.read_text().startswith(NAMES)


@pytest.mark.parametrize(
    ("out", "sentence"),
    [("none/m.npz", "does not exist; create it first"), ("m.csv", "must end in .npz")],
)
def test_a_wrong_out_is_refused(table: Path, out: str, sentence: str) -> None:
    assert_refused(fit(table, "--out", table.parent / out), sentence)


def never(*_: object) -> None:
    pytest.fail("privacy was spent on a model that cannot be stored")


def test_an_unwritable_folder_is_found_before_the_fit(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # The tests may run as root, who may write anywhere.
    monkeypatch.setattr("stillspace._files.open", read_only, raising=False)
    monkeypatch.setattr(fit_module, "_fitted", never)
    assert_refused(fit(table), "is not writable", code=1)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder closed even to root")
def test_a_folder_that_is_closed_to_all(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "_fitted", never)
    assert_refused(fit(table, "--out", "/proc/self/m.npz"), "is not writable", code=1)


def test_a_model_that_cannot_be_stored_is_rescued(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: object) -> None:
        if str(target) == str(table.parent / "m.npz"):
            raise OSError(28, "No space left on device")
        rename(source, target)

    rename = os.replace
    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = fit(table)
    assert_refused(result, "No space left on device); the model is kept in", code=1)
    (rescued,) = tmp_path.glob("stillspace-*/m.npz")
    assert str(rescued) in result.stderr
    assert load_model(rescued).privacy_.private


def test_a_model_that_can_be_stored_nowhere_is_said_to_be_lost(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = fit(table)
    assert_refused(result, "m.npz could not be written (No space left on device)", code=1)
    assert "is lost; the privacy loss of this fit is spent." in result.stderr
    assert sorted(os.listdir(tmp_path)) == ["table.csv"]


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from stillspace.cli import fit as module
from stillspace.cli.app import app
make = module._fitted
def fitted(*args):
    found = make(*args)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # no file may hold more bytes
    return found
module._fitted = fitted
app(sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of the size of files")
def test_a_disk_that_fills_up_during_the_fit(table: Path, tmp_path: Path) -> None:
    out = table.parent / "m.npz"
    args = ["fit", str(table), "-r", "2", "--epsilon", "1", "-o", str(out)]
    folder = tmp_path / "temporary"
    folder.mkdir()
    done = python("-c", LIMITED, *args, TMPDIR=str(folder))
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1
    assert "could not be written (File too large); the model could not be kept" in done.stderr
    assert "is lost" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["table.csv", "temporary"]
    assert os.listdir(folder) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_report_that_cannot_be_printed_says_where_the_model_is(table: Path) -> None:
    out = table.parent / "m.npz"
    command = [sys.executable, "-m", "stillspace", "fit", str(table), "-r", "2", "--epsilon", "1"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, "-o", str(out)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert f"The model is stored in {out}, but its report could not be printed" in done.stderr
    assert "Traceback" not in done.stderr
    assert load_model(out).privacy_.private


# --- the table -----------------------------------------------------------------------------

SECRET = "Xanadu4711"


@pytest.mark.parametrize(
    ("content", "args", "sentence"),
    [
        ("", [], "is empty"),
        ("\n\n\n", [], "is empty"),
        ("a\n1\n2\n", [], "has 1 column to read; at least two are needed (see --delimiter)"),
        ("a;b\n1;2\n3;4\n", ["--delimiter", ","], "at least two are needed (see --delimiter)"),
        (f"a,b\n1,2\n3,{SECRET}\n", [], "A cell of column 2 in"),
        (f"a,b\n1,2\n3,{SECRET}\n", ["--header"], "A cell of column 'b' in"),
        (f"{SECRET},Kubla\n1,x\n", [], "A cell of column 2 in"),
        (f"{SECRET},b\n1,x\n", ["--no-header"], "A cell of column 1 in"),
        (f"1,{SECRET}\n1,2\n", [], "could be names or data; give --header or --no-header"),
        (f"{SECRET},{SECRET}\n1,2\n", [], "could be names or data"),
        (",a,b\n0,1,2\n", [], "could be names or data"),
        (f"a,b\n1,2\n3,{SECRET}\n", ["--columns", "a,c"], "has no column 'c'"),
        ("a,b\n1,2\n1,2,4711\n", [], "do not all have the same number of cells"),
        ("a,b\n1_0,2\n", [], "A cell of column 1"),
        ("a,b\n1,\x002\n", [], "is not a text file (it holds zero bytes)"),
        (f'a,b\n1,"{SECRET * 20_000}"\n', [], "A cell of column 2"),
    ],
)
def test_bad_tables_get_a_sentence_without_a_cell(
    tmp_path: Path, content: str, args: list[str], sentence: str
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(content)
    result = fit(table, "--components", 1, *args)
    assert_refused(result, sentence, code=1)
    for cell in (SECRET, "Kubla", "4711", "1_0"):
        assert cell not in result.output
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.parametrize("args", [[], ["--no-header"]])
def test_a_file_without_a_header_is_refused_where_the_number_of_rows_is_secret(
    tmp_path: Path, args: list[str]
) -> None:
    """Without rows such a file has no columns; with one row it has: both are refused alike."""
    table, said = tmp_path / "t.csv", set()
    secret = ("--relation", "add-or-remove-one", "--public-size", 10, "--components", 1, *args)
    for content in ("", "1,2,3\n", "1,2,3\n" * 9):
        table.write_text(content)
        result = fit(table, *secret)
        assert_refused(result, "needs a header line", code=1)
        said.add(result.stderr)
    assert len(said) == 1
    if args:
        return
    for content in ("a,b,c\n", "a,b,c\n1,2,3\n"):
        table.write_text(content)
        assert fit(table, *secret, "--force").exit_code == 0


def test_other_bytes_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,\xff\xfe\n")
    assert_refused(fit(tmp_path / "t.csv"), "is not text in utf-8; give --encoding", code=1)


def test_a_missing_table(tmp_path: Path) -> None:
    assert_refused(fit(tmp_path / "none.csv"), "does not exist; check the path")
    assert_refused(fit(tmp_path), "", code=1)


@pytest.mark.parametrize("header", [NAMES, None])
def test_numbers_are_read_exactly(tmp_path: Path, header: str | None) -> None:
    path = write_csv(tmp_path / "t.csv", DATA.X, header)
    assert read_table(path, Format()).names is None
    found = read_table(path, Format(header=header is not None))
    np.testing.assert_array_equal(found.X, DATA.X)
    assert found.names == (tuple(NAMES.split(",")) if header else None)


def test_gaps_spaces_blank_lines_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('\ufeff"a, 1"\tb\n 1 \tNA\n\n-inf\t2e-3\n\t"7"\n', encoding="utf-8")
    assert read_table(path, Format()).names is None
    found = read_table(path, Format(delimiter="\t", header=True))
    assert found.names == ("a, 1", "b")
    np.testing.assert_array_equal(found.X, [[1, np.nan], [-np.inf, 0.002], [np.nan, 7]])


def test_a_header_of_numbers_must_be_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("2019,2020\n1,2\n3,4\n")
    assert len(read_table(path, Format()).X) == 3
    found = read_table(path, Format(header=True))
    assert found.names == ("2019", "2020")
    np.testing.assert_array_equal(found.X, [[1, 2], [3, 4]])


@pytest.mark.parametrize("name", [*PRIVATE, *ROBUST])
def test_every_plan_has_words(name: str) -> None:
    budget = {"epsilon": 1.0, "delta": 1e-6} if name in PRIVATE else {}
    table = PRIVATE if name in PRIVATE else ROBUST
    options = {"n_iter": 3} if "n_iter" in table[name].options else {}
    words = make_plan(name, Facts(5000, 6, 2, **budget), **options).in_words()
    assert words.startswith(f"{name}: ")
    assert words.endswith(".")
    noisy = name in PRIVATE or name.startswith("n")
    assert ("noise" in words or "private" in words) == noisy


# --- demo, version, entry points -----------------------------------------------------------


def test_demo(tmp_path: Path) -> None:
    result = run("demo", "--out", tmp_path / "d", "--seed", 3)
    assert result.exit_code == 0
    assert (tmp_path / "d" / "stillspace-demo.png").read_bytes()[:4] == b"\x89PNG"
    for word in ("Synthetic data", "PCA (scikit-learn)", "RobustPCA", "PrivatePCA", "worst angle"):
        assert word in result.stdout
    assert "(1, 1e-06)-differential privacy" in result.stdout


def test_a_demo_that_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("a file")
    result = run("demo", "--out", tmp_path / "d")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in result.output


def test_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"stillspace {stillspace.__version__}\n"


def python(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *args]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **env}
    )


def test_python_m_stillspace(table: Path) -> None:
    out = table.parent / "m.npz"
    args = ["-m", "stillspace", "fit", str(table), "-r", "2", "--epsilon", "1", "-o", str(out)]
    done = python(*args, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert load_model(out).privacy_.private
    refused = python(*args)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_it_says_how_to_get_it(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; "
        "from stillspace.cli import main; sys.argv = ['stillspace', 'demo']; main()"
    )
    done = python("-c", code)
    assert done.returncode == 1
    assert done.stderr == 'The stillspace command needs: pip install "stillspace[cli]"\n'


def test_without_matplotlib_the_demo_says_so() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; "
        "from stillspace.plots._figure import new_figure; new_figure(1, 1)"
    )
    done = python("-c", code)
    assert done.stderr.strip().endswith('Pictures need matplotlib: pip install "stillspace[plots]"')


def test_help_is_quick_and_the_package_needs_no_extra() -> None:
    code = (
        "import sys; from stillspace.cli import main; import stillspace.models; "
        "assert not {'typer', 'rich', 'matplotlib'} & set(sys.modules)"
    )
    assert python("-c", code).returncode == 0
    code = "import sys, stillspace.cli.app; assert 'numpy' not in sys.modules"
    assert python("-c", code).returncode == 0


# --- budget --------------------------------------------------------------------------------


def test_budget_create_fit_show(table: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    made = run("budget", "create", ledger, "--epsilon", 2, "--delta", 1e-5)
    assert made.exit_code == 0
    assert "(2, 1e-05)-differential privacy under replace-one" in made.stdout
    assert "epsilon up to 2 at delta=1e-05" in made.stdout
    fitted = fit(table, "--budget", ledger)
    assert fitted.exit_code == 0
    assert "all fits in the same ledger" in fitted.stdout
    shown = run("budget", "show", ledger)
    assert shown.exit_code == 0
    assert "spent by 1 fit" in shown.stdout
    assert "[#####" in shown.stdout
    assert "auto" in shown.stdout
    head = Budget(ledger).head()
    assert head in shown.stdout
    assert run("budget", "show", ledger, "--head", head).exit_code == 0
    assert_refused(run("budget", "show", ledger, "--head", "0" * 64), "lost entries", 1)
    (table.parent / "m.npz").unlink()
    refused = fit(table, "--budget", ledger, epsilon=2.5)
    assert_refused(refused, "of its budget left", 1)
    assert not (table.parent / "m.npz").exists()
    assert len(Budget(ledger).entries()) == 1


def test_budget_of_kind_renyi(table: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    options = ("--kind", "renyi", "--order", 8, "--order", 12)
    assert run("budget", "create", ledger, "--epsilon", 3, "--delta", 1e-5, *options).exit_code == 0
    assert Budget(ledger).orders == (8.0, 12.0)
    stochastic = ("--algorithm", "dp-sggd", "--n-iter", 10)
    assert fit(table, "--budget", ledger, *stochastic).exit_code == 0
    assert len(Budget(ledger).entries()) == 1


def test_budget_refusals(table: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    terms = ("--epsilon", 3, "--delta", 1e-5)
    assert_refused(run("budget", "show", ledger), "There is no ledger", 1)
    assert_refused(fit(table, "--budget", ledger), "There is no ledger", 1)
    assert_refused(run("budget", "show", table), "is not a stillspace ledger", 1)
    assert_refused(run("budget", "create", ledger, *terms, "--kind", "pld"), "'gaussian', 'renyi'")
    assert_refused(
        run("budget", "create", ledger, "--epsilon", -1, "--delta", 1e-5), "epsilon must be"
    )
    assert not ledger.exists()
    assert run("budget", "create", ledger, *terms).exit_code == 0
    assert_refused(run("budget", "create", ledger, *terms), "terms never change")
    public = ("--without-privacy", "--budget", ledger)
    assert_refused(fit(table, *public, epsilon=None), "promises nothing")
    assert_refused(fit(table, "--budget", ledger, "--algorithm", "dp-sggd"), "kind renyi")


# --- reproduce -----------------------------------------------------------------------------


def test_reproduce_writes_tables_figures_and_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.reproduction.conftest import make_tiny

    make_tiny(monkeypatch)
    out, docs = tmp_path / "out", tmp_path / "docs"
    options = ["--out", out, "--docs", docs, "--workers", 1]
    result = run("reproduce", "D-vs-r", *options)
    assert result.exit_code == 0
    assert "D-vs-r:  " in result.stdout
    assert "156/156 cells" in result.stderr
    for name in ("D-vs-r.csv", "D-vs-r.png", "D-vs-r.svg", "reproduction.md"):
        assert (out / name).exists()
    assert (docs / "reproduction.md").exists()
    assert (docs / "reproduction" / "D-vs-r.png").exists()

    kept = sorted((out / "cells" / "D-vs-r-quick").iterdir())
    kept[0].unlink()
    started = []
    add_task = Progress.add_task
    monkeypatch.setattr(
        Progress, "add_task", lambda *a, **k: started.append(k["cells"]) or add_task(*a, **k)
    )
    again = run("reproduce", "D-vs-r", *options)
    assert started == [155]  # only what is left is counted as work
    assert "156/156 cells" in again.stderr


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("convergense",), "no experiment 'convergense'"),
        (("popres", "--size", "huge"), "no size 'huge'"),
        (("convergence", "--data", "x"), "--data is for popres (or all)"),
        (("popres", "--redo", "theirs"), "no column 'theirs'"),
        (("popres", "--columns", "honest,theirs"), "no column 'theirs'"),
        (("popres", "--c", "-1"), "constants must be finite and above 0"),
        (("popres", "--data", "no-such-folder"), "is not a folder"),
    ],
)
def test_reproduce_refuses(args: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    assert_refused(run("reproduce", *args, "--out", tmp_path), sentence)


def test_stages_reach_the_estimator(table: Path) -> None:
    options = ["--center", "pairs", "--summary", "variances", "--summary", "distances"]
    result = fit(table, *options, epsilon=3.0)
    assert result.exit_code == 0
    model = load_model(table.parent / "m.npz")
    assert model.variances_.shape == (len(model.components_),)
    assert "Variances:" in result.stdout
    assert "Distances:" in result.stdout
    assert "Route:" in result.stdout


def test_pairs_that_were_left_out_are_told(tmp_path: Path) -> None:
    X = make_haystack(9000, 5, 2, inlier_ratio=1.0, inlier_noise=0.05, random_state=1).X
    X[::3] += 20.0
    result = fit(write_csv(tmp_path / "far.csv", X), "--center", "pairs", epsilon=4.0)
    assert result.exit_code == 0
    assert "were left out" in result.stdout
    assert load_model(tmp_path / "m.npz").pair_cut_ is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sketch", "wide"], "whole number of at least 2 or auto or none"),
        (["--center", "median"], "needs radius"),
        (["--summary", "skewness"], "'variances'"),
    ],
)
def test_wrong_stages_are_one_sentence(table: Path, options: list[str], words: str) -> None:
    result = fit(table, *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
