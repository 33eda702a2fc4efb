"""Every encoding a camera may send becomes RGB; everything malformed says what is wrong."""

import array
import contextlib
import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.image_headers import is_kept_as_it_is, size_of
from aerial_vpr_cl.images import check_encoded, decode_compressed, decode_raw, to_rgb8

RED = (200, 10, 30)


@pytest.fixture
def rgb() -> np.ndarray:
    rng = np.random.default_rng(0)
    return cv2.GaussianBlur(rng.integers(0, 256, (24, 32, 3), np.uint8), (0, 0), 3)


def plain(colour, height=24, width=32):
    return np.full((height, width, 3), colour, np.uint8)


def raw(image, encoding, *, padding=0, big=False):
    """The decoder's answer to an array sent row by row with padding."""
    order = ">" if big else "<"
    rows = np.ascontiguousarray(image, image.dtype.newbyteorder(order)).reshape(len(image), -1).view(np.uint8)
    padded = np.pad(rows, ((0, 0), (0, padding)), constant_values=77)
    return decode_raw(image.shape[0], image.shape[1], encoding, padded.shape[1], big, padded.tobytes())


@pytest.mark.parametrize("padding", [0, 5])
def test_eight_bit_encodings_give_the_same_rgb_with_and_without_row_padding(rgb, padding):
    alpha = np.full((*rgb.shape[:2], 1), 9, np.uint8)
    sent = {
        "rgb8": rgb,
        "bgr8": rgb[..., ::-1],
        "8UC3": rgb[..., ::-1],
        "rgba8": np.concatenate([rgb, alpha], 2),
        "bgra8": np.concatenate([rgb[..., ::-1], alpha], 2),
        "8UC4": np.concatenate([rgb[..., ::-1], alpha], 2),
    }
    for encoding, image in sent.items():
        np.testing.assert_array_equal(raw(image, encoding, padding=padding), rgb, err_msg=encoding)
    for encoding in ("mono8", "8UC1"):
        np.testing.assert_array_equal(raw(rgb[..., 0], encoding, padding=padding), np.repeat(rgb[..., :1], 3, 2))


def test_dense_rgb8_is_a_view_and_not_a_copy(rgb):
    data = rgb.tobytes()
    decoded = decode_raw(24, 32, "rgb8", 96, 0, data)
    assert np.shares_memory(decoded, np.frombuffer(data, np.uint8))
    assert not decoded.flags.writeable


def test_data_may_be_any_buffer(rgb):
    data = rgb.tobytes()
    for buffer in (data, bytearray(data), memoryview(data), array.array("B", data), np.frombuffer(data, np.uint8)):
        np.testing.assert_array_equal(decode_raw(24, 32, "rgb8", 96, 0, buffer), rgb)


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
@pytest.mark.parametrize("bits", [8, 16])
def test_bayer_patterns_show_the_colour_that_was_there(pattern, bits):
    values = dict(zip("rgb", (200, 100, 0), strict=True))
    tile = np.array([values[letter] for letter in pattern]).reshape(2, 2)
    mosaic = np.tile(tile, (12, 16)).astype(np.uint8 if bits == 8 else np.uint16)
    decoded = raw(mosaic if bits == 8 else mosaic * 256, f"bayer_{pattern}{bits}")
    expected = (200, 100, 0) if bits == 8 else (255, 128, 0)  # 16 bit is stretched
    np.testing.assert_allclose(decoded[4:-4, 4:-4].reshape(-1, 3).mean(axis=0), expected, atol=2)


@pytest.mark.parametrize(
    ("encoding", "order"), [("yuv422", "uyvy"), ("uyvy", "uyvy"), ("yuyv", "yuyv"), ("yuv422_yuy2", "yuyv")]
)
def test_packed_yuv_shows_the_colour_that_was_there(encoding, order):
    red, green, blue = RED
    y = 16 + 0.257 * red + 0.504 * green + 0.098 * blue
    u = 128 - 0.148 * red - 0.291 * green + 0.439 * blue
    v = 128 + 0.439 * red - 0.368 * green - 0.071 * blue
    parts = {"y": y, "u": u, "v": v}
    pair = np.array([round(parts[letter]) for letter in order], np.uint8)
    packed = np.tile(pair, (24, 16)).reshape(24, 32, 2)
    np.testing.assert_allclose(raw(packed, encoding, padding=4), plain(RED), atol=4)


@pytest.mark.parametrize(("encoding", "chroma"), [("nv12", "uv"), ("nv21", "vu")])
def test_planar_yuv_shows_the_colour_that_was_there(encoding, chroma):
    i420 = cv2.cvtColor(plain(RED), cv2.COLOR_RGB2YUV_I420)
    y, u, v = i420[0, 0], i420[24, 0], i420[30, 0]
    planes = np.full((36, 32), y, np.uint8)
    planes[24:] = np.tile([{"u": u, "v": v}[letter] for letter in chroma], (12, 16))
    decoded = decode_raw(24, 32, encoding, 32, 0, planes.tobytes())
    np.testing.assert_allclose(decoded, plain(RED), atol=4)
    with pytest.raises(MissionError, match="even"):
        decode_raw(23, 32, encoding, 32, 0, planes.tobytes())


@pytest.mark.parametrize("encoding", ["mono16", "16UC1"])
@pytest.mark.parametrize("big", [False, True])
def test_thermal_images_are_stretched_by_robust_percentiles_in_either_byte_order(encoding, big):
    ramp = np.linspace(29_000, 31_000, 24 * 32).reshape(24, 32).astype(np.uint16)
    ramp[0, 0], ramp[0, 1] = 0, 65_535  # a dead and a hot pixel
    decoded = raw(ramp, encoding, big=big, padding=6)
    assert decoded.dtype == np.uint8
    assert int(decoded[12, 16, 0]) == pytest.approx(131, abs=6)
    assert decoded[0, 0, 0] == 0
    assert decoded[0, 1, 0] == 255
    assert decoded[1, 0, 0] < 20 < 235 < decoded[-1, -1, 0]
    assert (np.diff(decoded[2:, :, 0].reshape(-1).astype(int)) >= 0).all()


@pytest.mark.parametrize(("encoding", "dtype"), [("32FC1", "f4"), ("64FC1", "f8"), ("16SC1", "i2"), ("32SC1", "i4")])
def test_other_depths_are_stretched_too(encoding, dtype):
    ramp = np.linspace(-500, 500, 24 * 32).reshape(24, 32).astype(dtype)
    decoded = raw(ramp, encoding, big=True)
    assert decoded.min() == 0
    assert decoded.max() == 255
    assert int(decoded[12, 0, 0]) == pytest.approx(128, abs=4)


def test_nan_and_infinite_pixels_are_black_and_do_not_move_the_scale():
    image = np.linspace(0, 1, 24 * 32, dtype=np.float32).reshape(24, 32)
    clean = to_rgb8(image)
    image[3, 4], image[5, 6], image[7, 8] = np.nan, np.inf, -np.inf
    decoded = to_rgb8(image)
    assert [decoded[at][0] for at in ((3, 4), (5, 6), (7, 8))] == [0, 0, 0]
    assert np.abs(decoded[10:].astype(int) - clean[10:]).max() <= 1
    assert not to_rgb8(np.full((8, 8), np.nan)).any()


@pytest.mark.parametrize("value", [0, 7, 65_535])
def test_constant_16_bit_images_are_mid_grey(value):
    assert (to_rgb8(np.full((8, 8), value, np.uint16)) == 128).all()


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([np.uint16, np.float32, np.int16]), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_every_deep_image_becomes_a_grey_image_of_its_size_that_keeps_the_order_of_values(height, width, dtype, seed):
    image = np.random.default_rng(seed).integers(0, 30_000, (height, width)).astype(dtype)
    decoded = to_rgb8(image)
    assert decoded.shape == (height, width, 3)
    order = np.argsort(image, axis=None)
    assert (np.diff(decoded[..., 1].reshape(-1)[order].astype(int)) >= 0).all()


def test_colour_of_16_bit_keeps_its_hue():
    image = np.zeros((8, 8, 3), np.uint16)
    image[..., 0], image[..., 1] = 4000, 2000
    assert to_rgb8(image)[0, 0].tolist() == [255, 128, 0]
    np.testing.assert_array_equal(raw(image[..., ::-1], "bgr16"), raw(image, "rgb16"))


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        ("step is 95 bytes, but a row of rgb8 has 96", (24, 32, "rgb8", 95, 0, bytes(24 * 95))),
        ("has 100 bytes, but 24 rows of 96 need 2304", (24, 32, "rgb8", 96, 0, bytes(100))),
        ("more than 24 rows", (24, 32, "rgb8", 96, 0, bytes(24 * 96 + 1))),
        ("has 0 bytes", (24, 32, "mono8", 32, 0, b"")),
        ("0 × 24 pixels is empty", (24, 0, "rgb8", 96, 0, b"")),
        ("'h264' is not supported; supported are rgb8", (24, 32, "h264", 96, 0, bytes(2304))),
        ("'' is not supported", (24, 32, "", 96, 0, bytes(2304))),
        ("'8UC2' is not supported", (24, 32, "8UC2", 64, 0, bytes(24 * 64))),
        ("'64FC3' is not a camera image", (1, 1, "64FC3", 24, 0, bytes(24))),
        ("its width must be even", (1, 3, "uyvy", 6, 0, bytes(6))),
        ("type list cannot be read", (1, 1, "mono8", 1, 0, [1])),
    ],
)
def test_malformed_raw_images_say_what_is_wrong(message, fields):
    with pytest.raises(MissionError, match=message.replace("(", r"\(")):
        decode_raw(*fields)


@given(
    st.integers(-1, 9),
    st.integers(-1, 9),
    st.sampled_from(["rgb8", "mono16", "bayer_rggb8", "bayer_gbrg16", "uyvy", "nv12", "32FC1", "8UC4", "?"]),
    st.integers(0, 40),
    st.booleans(),
    st.binary(max_size=400),
)
@settings(max_examples=300, deadline=None)
def test_the_decoder_answers_anything_with_an_image_or_a_mission_error(height, width, encoding, step, big, data):
    try:
        image = decode_raw(height, width, encoding, step, big, data)
    except MissionError:
        return
    assert image.shape == (height, width, 3)
    assert image.dtype == np.uint8


def test_the_last_rows_padding_may_be_missing(rgb):
    rows = np.pad(rgb.reshape(24, 96), ((0, 0), (0, 4))).tobytes()
    np.testing.assert_array_equal(decode_raw(24, 32, "rgb8", 100, 0, rows[:-4]), rgb)


def encode(extension, image):
    return cv2.imencode(extension, image)[1].tobytes()


def test_compressed_images_are_decoded_to_rgb(rgb):
    np.testing.assert_array_equal(decode_compressed(encode(".png", rgb[..., ::-1]), "rgb8; png compressed bgr8"), rgb)
    assert np.abs(decode_compressed(encode(".jpg", plain(RED)[..., ::-1])).astype(int) - plain(RED)).max() <= 4
    assert decode_compressed(encode(".jpg", rgb[..., 0])).shape == rgb.shape
    transparent = np.concatenate([rgb[..., ::-1], np.zeros((24, 32, 1), np.uint8)], 2)
    np.testing.assert_array_equal(decode_compressed(encode(".png", transparent)), rgb)


def test_a_jpeg_comes_as_small_as_is_enough_and_exactly_a_fraction_of_itself():
    scene = cv2.GaussianBlur(np.random.default_rng(3).integers(0, 256, (240, 320, 3), np.uint8), (0, 0), 12)
    scene = cv2.normalize(scene, None, 0, 255, cv2.NORM_MINMAX)
    jpeg = cv2.imencode(".jpg", scene, [cv2.IMWRITE_JPEG_QUALITY, 98])[1].tobytes()
    whole = decode_compressed(jpeg)
    for enough_px, width in [(321.0, 320), (161.0, 320), (160.0, 160), (41.0, 80), (40.0, 40), (1.0, 40)]:
        small = decode_compressed(jpeg, enough_px=enough_px)
        assert small.shape == (width * 3 // 4, width, 3)
        means = cv2.resize(whole, (width, width * 3 // 4), interpolation=cv2.INTER_AREA)
        assert np.abs(small.astype(int) - means).mean() < 2.0  # blocks of pixels, none shifted


def test_sizes_that_cannot_be_divided_and_other_formats_come_whole(rgb):
    odd = np.zeros((90, 122, 3), np.uint8)
    assert decode_compressed(cv2.imencode(".jpg", odd)[1].tobytes(), enough_px=1.0).shape == (45, 61, 3)
    assert decode_compressed(cv2.imencode(".jpg", odd[:, 1:])[1].tobytes(), enough_px=1.0).shape == (90, 121, 3)
    assert decode_compressed(cv2.imencode(".png", odd)[1].tobytes(), enough_px=1.0).shape == odd.shape


def test_sixteen_bit_png_is_stretched_like_a_raw_16_bit_image():
    ramp = np.linspace(29_000, 31_000, 24 * 32).reshape(24, 32).astype(np.uint16)
    encoded = encode(".png", ramp)
    np.testing.assert_array_equal(decode_compressed(encoded), raw(ramp, "mono16"))
    assert not is_kept_as_it_is(encoded)
    assert is_kept_as_it_is(encode(".png", ramp.astype(np.uint8)))


def test_malformed_compressed_images_say_what_is_wrong(rgb):
    jpeg, png = encode(".jpg", rgb), encode(".png", rgb)
    cases = {
        "is empty": b"",
        "neither JPEG, PNG nor TIFF": b"hello",
        "JPEG image of .* is cut short": jpeg[: len(jpeg) // 2],
        "compressedDepth": bytes(12) + png,
        "have no header": png[:20],
        "cut short or damaged": png[:40],
    }
    for message, data in cases.items():
        for decode in (decode_compressed, check_encoded):
            with pytest.raises(MissionError, match=message):
                decode(data)
    with pytest.raises(MissionError, match="compressedDepth"):
        decode_compressed(png, "16UC1; compressedDepth png")
    check_encoded(jpeg + bytes(100))  # drivers pad


@pytest.mark.parametrize("extension", [".jpg", ".png", ".tiff"])
@pytest.mark.parametrize("shape", [(24, 32, 3), (7, 300), (301, 5)])
def test_an_image_with_too_many_pixels_is_refused_by_its_header(extension, shape):
    encoded = encode(extension, np.zeros(shape, np.uint8))
    pixels = shape[0] * shape[1]
    assert decode_compressed(encoded, most_pixels=pixels).shape == (*shape[:2], 3)
    with pytest.raises(MissionError, match=f"image of {shape[1]} × {shape[0]} pixels is larger than"):
        decode_compressed(encoded, most_pixels=pixels - 1)


def test_a_few_bytes_that_claim_gigabytes_are_not_decoded(rgb):
    png = bytearray(encode(".png", rgb))
    png[16:24] = struct.pack(">II", 23_000, 24_000)
    png[29:33] = struct.pack(">I", zlib.crc32(png[12:29]))
    for decode in (decode_compressed, check_encoded):
        with pytest.raises(MissionError, match="23000 × 24000 pixels is larger than the 50 megapixels allowed"):
            decode(bytes(png))


@given(st.sampled_from([".jpg", ".png", ".tiff"]), st.data())
def test_a_broken_header_is_a_mission_error_or_a_size(extension, data):
    encoded = bytearray(encode(extension, np.zeros((5, 9, 3), np.uint8)))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(4, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MissionError):
        size_of(bytes(encoded[: data.draw(st.integers(4, len(encoded)))]))


def test_arrays_that_are_no_images_are_refused():
    for shape in ((4,), (4, 4, 2), (0, 4), (2, 2, 3, 1)):
        with pytest.raises(MissionError, match="not an image"):
            to_rgb8(np.zeros(shape, np.uint8))
    with pytest.raises(MissionError, match="not numbers"):
        to_rgb8(np.zeros((4, 4), bool))
