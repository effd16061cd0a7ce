"""Decoding: sizes, colours, orientation, damage, and files that are whole or not there."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verax.paper import images


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def chw(image: Image.Image) -> np.ndarray:
    return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


@pytest.mark.parametrize("suffix", ["png", "webp"])
def test_an_image_of_the_wanted_size_keeps_its_pixels(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    picture(32, 32).save(path, **({"lossless": True} if suffix == "webp" else {}))
    assert np.array_equal(images.read_image(path, 32), chw(picture(32, 32)))


@pytest.mark.parametrize(("height", "width"), [(32, 48), (48, 32), (64, 200), (201, 64), (20, 33), (5, 5)])
def test_the_centre_of_an_image_is_kept(tmp_path: Path, height: int, width: int) -> None:
    """The middle square is green, all around it is red."""
    side = min(height, width)
    image = Image.new("RGB", (width, height), (255, 0, 0))
    left, top = -(-(width - side) // 2), -(-(height - side) // 2)
    image.paste((0, 255, 0), (left, top, left + side, top + side))
    image.save(tmp_path / "a.png")
    pixels = images.read_image(tmp_path / "a.png", 32)
    assert pixels.shape == (3, 32, 32)
    assert pixels.dtype == np.uint8
    assert (pixels[:, 6:-6, 6:-6] == np.array([0, 255, 0])[:, None, None]).all()


def test_a_large_jpeg_decoded_at_a_fraction_looks_the_same(tmp_path: Path) -> None:
    picture(800, 1200).save(tmp_path / "a.jpg", quality=95)
    with Image.open(tmp_path / "a.jpg") as whole:
        slow = whole.resize((64, 64), Image.Resampling.LANCZOS, box=(200, 0, 1000, 800))
    difference = np.abs(images.read_image(tmp_path / "a.jpg", 64).astype(int) - chw(slow))
    assert difference.max() <= 4
    assert difference.mean() < 1


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "CMYK"])
def test_other_colour_modes_become_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    image = picture(32, 32).convert(mode)
    image.save(path)
    pixels = images.read_image(path, 32)
    assert pixels.shape == (3, 32, 32)
    if mode != "CMYK":
        assert np.array_equal(pixels, chw(image))


def test_a_palette_with_transparency_and_a_transparent_image_lose_only_the_transparency(tmp_path: Path) -> None:
    palette = picture(32, 32).convert("P")
    palette.save(tmp_path / "p.png", transparency=bytes([0, 128, 255]))
    assert np.array_equal(images.read_image(tmp_path / "p.png", 32), chw(palette))
    clear = picture(32, 32)
    clear.putalpha(10)
    clear.save(tmp_path / "c.png")
    assert np.array_equal(images.read_image(tmp_path / "c.png", 32), chw(picture(32, 32)))


def test_sixteen_bit_pixels_are_refused_not_clipped(tmp_path: Path) -> None:
    Image.fromarray(np.full((32, 32), 5000, np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="more than 8 bits"):
        images.read_image(tmp_path / "a.png", 32)


def test_the_orientation_of_the_camera_is_honoured(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
    picture(32, 32).save(tmp_path / "a.png", exif=exif)
    upright = picture(32, 32).transpose(Image.Transpose.ROTATE_270)
    assert np.array_equal(images.read_image(tmp_path / "a.png", 32), chw(upright))


def test_decoding_fills_rows_and_knows_sums_hashes_and_damage(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2), ("c", 1)):
        picture(16, 16, seed).save(tmp_path / f"{name}.png")
    (tmp_path / "b.png").write_bytes((tmp_path / "b.png").read_bytes()[:-200])
    paths = [tmp_path / f"{name}.png" for name in "abc"]
    pixels = np.zeros((3, 3, 16, 16), np.uint8)
    calls: list[tuple[int, int]] = []
    decoded = images.decode_images(paths, pixels, lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]
    assert list(decoded.damaged) == [1]
    assert decoded.digests[0] == decoded.digests[2] != decoded.digests[1] == ""
    assert np.array_equal(pixels[0], chw(picture(16, 16, 1)))
    assert not pixels[1].any()
    wide = pixels.astype(np.int64)
    assert np.array_equal(decoded.moments, np.stack([wide.sum((2, 3)), (wide**2).sum((2, 3))], axis=1))


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.9])
def test_a_truncated_file_is_damage_in_every_format(tmp_path: Path, suffix: str, share: float) -> None:
    path = tmp_path / f"a.{suffix}"
    picture(64, 64).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    decoded = images.decode_images([path], np.zeros((1, 3, 32, 32), np.uint8))
    assert list(decoded.damaged) == [0]
    assert ":" in decoded.damaged[0]


def test_a_failing_callback_stops_the_decoding(tmp_path: Path) -> None:
    picture(16, 16).save(tmp_path / "a.png")

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        images.decode_images([tmp_path / "a.png"] * 50, np.zeros((50, 3, 16, 16), np.uint8), interrupt)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [1, 3], [0, 2, 3], [3], []])
def test_rows_are_kept_in_place(tmp_path: Path, rows: list[int]) -> None:
    path = tmp_path / "a.npy"
    content = np.random.default_rng(0).integers(0, 256, (4, 3, 5, 5), dtype=np.uint8)
    images.create_pixels(path, content.shape)[...] = content
    images.keep_rows(path, rows)
    assert np.array_equal(np.load(path), content[rows])
    assert path.stat().st_size == 128 + content[rows].nbytes


def test_a_full_disk_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="another directory"):
        images.create_pixels(tmp_path / "a.npy", (2, 3, 4, 4))


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    with images.whole_folder(tmp_path / "deep" / "entry") as scratch:
        (scratch / "file").write_text("x")
        assert not (tmp_path / "deep" / "entry").exists()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["entry"]


def test_a_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), images.whole_folder(tmp_path / "entry") as scratch:  # noqa: PT012
        (scratch / "file").write_text("x")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_faster_process_stays(tmp_path: Path) -> None:
    with images.whole_folder(tmp_path / "entry") as scratch:
        (scratch / "file").write_text("ours")
        (tmp_path / "entry").mkdir()
        (tmp_path / "entry" / "file").write_text("theirs")
    assert (tmp_path / "entry" / "file").read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_process_left_is_swept_a_day_later(tmp_path: Path) -> None:
    for name, age in ((".old.x.partial", 2 * 86400), (".new.y.partial", 60)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with images.whole_folder(tmp_path / "entry"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new.y.partial", "entry"]


def test_progress_is_shown_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    images.show_progress(1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    images.show_progress(2, 2)
    assert capsys.readouterr().err == "\rdecoding images: 2 of 2 (100%)\n"
