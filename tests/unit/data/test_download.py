"""Downloads from a real server on this machine: whole and verified, or not there at all, with a hint what to do."""

from __future__ import annotations

import hashlib
import http.server
import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from participant.data.download import PublishedFile, provide

CONTENT = bytes(range(256)) * 9000  # 2.3 MB: three chunks
MD5 = hashlib.md5(CONTENT).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/absent.npz":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unsized.npz":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2] if self.path == "/cut.npz" else CONTENT)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name http.server uses)
        return


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


def published(server: str, name: str = "set.npz", md5: str = MD5) -> PublishedFile:
    return PublishedFile(name=name, url=f"{server}/{name}", md5=md5)


@pytest.mark.parametrize("name", ["set.npz", "unsized.npz"])
def test_a_download_arrives_whole_and_leaves_nothing_beside_it(server: str, name: str, tmp_path: Path) -> None:
    path = provide(published(server, name), tmp_path / "new" / "folder", download=True)
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == [name]


def test_a_verified_file_is_used_without_the_network(tmp_path: Path) -> None:
    (tmp_path / "set.npz").write_bytes(CONTENT)
    nowhere = PublishedFile(name="set.npz", url="http://127.0.0.1:9/set.npz", md5=MD5)
    assert provide(nowhere, tmp_path, download=True) == tmp_path / "set.npz"


@pytest.mark.parametrize(
    ("name", "md5", "complaint"),
    [
        ("set.npz", "0" * 32, f"content with MD5 {MD5}"),
        ("cut.npz", MD5, "content with MD5"),
        ("absent.npz", MD5, r"no download \(Not Found\)"),
    ],
)
def test_a_failed_download_leaves_no_file(server: str, name: str, md5: str, complaint: str, tmp_path: Path) -> None:
    file = published(server, name, md5)
    with pytest.raises(InvalidInput, match=complaint) as caught:
        provide(file, tmp_path, download=True)
    assert list(tmp_path.iterdir()) == []
    assert f"save {file.url} (MD5 {md5}) as {tmp_path / name}" in str(caught.value)


def test_without_a_network_the_error_says_what_to_put_where(tmp_path: Path) -> None:
    """Port 9 (discard) is closed here, so the connection is refused at once."""
    file = PublishedFile(name="set.npz", url="http://127.0.0.1:9/set.npz", md5=MD5)
    with pytest.raises(InvalidInput, match="no download") as caught:
        provide(file, tmp_path, download=True)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(f"By hand: save {file.url} (MD5 {MD5}) as {tmp_path / 'set.npz'}")


def test_downloads_can_be_forbidden(server: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no such file.*By hand"):
        provide(published(server), tmp_path, download=False)
    assert list(tmp_path.iterdir()) == []


def test_a_found_file_with_another_md5_is_refused_and_kept(server: str, tmp_path: Path) -> None:
    (tmp_path / "set.npz").write_bytes(b"something else")
    with pytest.raises(InvalidInput, match=f"expected MD5 {MD5}. Delete it"):
        provide(published(server), tmp_path, download=True)
    assert (tmp_path / "set.npz").read_bytes() == b"something else"


def test_a_root_that_is_no_folder_is_named(server: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="a folder that can be written"):
        provide(published(server), tmp_path / "file", download=True)


def test_other_schemes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="http or https"):
        PublishedFile(name="set.npz", url="file:///etc/passwd", md5=MD5)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shown"), [(_Terminal(), True), (io.StringIO(), False)])
def test_progress_is_shown_on_a_terminal_only(
    server: str, stream: io.StringIO, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    provide(published(server), tmp_path, download=True)
    assert ("set.npz" in stream.getvalue()) is shown
