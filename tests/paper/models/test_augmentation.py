"""Augmentation: each part by hand, and the scheme as a whole."""

import math
from colorsys import rgb_to_hsv

import pytest
import torch
from torch import Tensor

from verax.paper.models import colour_augmentation as colour
from verax.paper.models import image_augmentation as image
from verax.paper.models.augmentation import TabularNoise, chosen, chosen_of, generator, key, on_rows, seeded
from verax.paper.models.image_augmentation import ImageAugmentation

PARTS = (
    *("transpose", "vertical_flip", "horizontal_flip", "brightness", "contrast", "soften"),
    *("distort", "equalise", "colours", "move", "cutout"),
)


def pictures(count: int = 6, channels: int = 3, height: int = 20, width: int = 20, dtype=torch.float32) -> Tensor:
    return torch.rand(count, channels, height, width, generator=generator(1), dtype=dtype)


def only(part: str, probability: float = 1.0) -> ImageAugmentation:
    return ImageAugmentation(**{name: probability if name == part else 0.0 for name in PARTS})


def full(value: float, count: int = 6) -> Tensor:
    return torch.full((count,), float(value))


class TestNoise:
    def test_has_the_wanted_deviation_and_leaves_its_input_alone(self):
        inputs = torch.zeros(400, 50)
        changed = TabularNoise(0.3)(inputs, generator(0))
        assert changed.std().item() == pytest.approx(0.3, rel=0.02)
        assert abs(changed.mean().item()) < 0.01
        assert not inputs.any()

    def test_is_seeded(self):
        noise, inputs = TabularNoise(0.3), torch.zeros(5, 4)
        assert torch.equal(noise(inputs, generator(3)), noise(inputs, generator(3)))
        assert not torch.equal(noise(inputs, generator(3)), noise(inputs, generator(4)))

    def test_of_strength_zero_changes_nothing(self):
        inputs = torch.ones(5, 4)
        assert torch.equal(TabularNoise(0.0)(inputs, generator(0)), inputs)

    @pytest.mark.parametrize("sigma", [-1.0, math.nan, math.inf])
    def test_refuses_what_is_no_deviation(self, sigma):
        with pytest.raises(ValueError, match="sigma"):
            TabularNoise(sigma)


class TestChoice:
    def test_below_the_probability(self):
        assert chosen(0.5, torch.tensor([0.1, 0.5, 0.7, 0.49])).tolist() == [0, 3]

    def test_deals_each_row_to_one_kind_at_most(self):
        rows = chosen_of(0.6, 3, torch.tensor([0.1, 0.3, 0.5, 0.7, 0.199, 0.2]))
        assert [part.tolist() for part in rows] == [[0, 4], [1, 5], [2]]

    def test_changes_the_chosen_rows_only(self):
        images = pictures()
        changed = on_rows(colour.brighten, images, torch.tensor([1, 4]), torch.arange(6) / 10)
        assert torch.equal(changed[[0, 2, 3, 5]], images[[0, 2, 3, 5]])
        assert torch.equal(changed[[1, 4]], colour.brighten(images[[1, 4]], torch.tensor([0.1, 0.4])))

    def test_keys_differ_by_seed_epoch_and_purpose(self):
        keys = {key(seed, epoch, what) for seed in range(3) for epoch in range(3) for what in ("order", "dropout")}
        assert len(keys) == 18

    def test_global_random_state_is_put_back(self):
        before = torch.random.get_rng_state()
        with seeded(5, torch.device("cpu")):
            first = torch.rand(3)
        with seeded(5, torch.device("cpu")):
            second = torch.rand(3)
        assert torch.equal(first, second)
        assert torch.equal(torch.random.get_rng_state(), before)


class TestColour:
    def test_brightness_adds_what_it_says(self):
        images = pictures() * 0.5 + 0.2
        amount = torch.linspace(-0.2, 0.2, 6)
        changed = colour.brighten(images, amount)
        torch.testing.assert_close(changed - images, amount[:, None, None, None].expand_as(images))

    def test_contrast_multiplies(self):
        images = pictures() * 0.5
        torch.testing.assert_close(colour.change_contrast(images, full(0.2)), images * 1.2)

    def test_noise_adds_its_multiple(self):
        images, noise = pictures() * 0.5 + 0.25, pictures() - 0.5
        torch.testing.assert_close(colour.add_noise(images, noise, full(0.1)), images + 0.1 * noise)

    @pytest.mark.parametrize(
        "change",
        [
            lambda x: colour.brighten(x, full(0)),
            lambda x: colour.change_contrast(x, full(0)),
            lambda x: colour.add_noise(x, torch.randn(x.shape, generator=generator(0)), full(0)),
            lambda x: colour.blur(x, colour.gaussian_kernels(full(1e-4))),
            lambda x: colour.blur(x, colour.motion_kernels(full(0), full(1))),
            lambda x: colour.shift_colours(x, full(0), full(0), full(0)),
            lambda x: image.shift_scale_rotate(x, torch.zeros(6, 2), full(1), full(0)),
            lambda x: image.optical_distortion(x, full(0)),
            lambda x: image.grid_distortion(x, torch.ones(6, 2, 5)),
            lambda x: image.elastic_distortion(x, torch.zeros(6, 2, 4, 4)),
            lambda x: image.cutout(x, torch.full((6, 2), 0.5), share=0.0),
        ],
    )
    def test_strength_zero_changes_nothing(self, change):
        images = pictures(height=20, width=14)
        torch.testing.assert_close(change(images), images, atol=5e-6, rtol=0)

    @pytest.mark.parametrize("kernels", [colour.gaussian_kernels(full(1.0)), colour.motion_kernels(full(0.4), full(5))])
    def test_kernels_sum_to_one(self, kernels):
        torch.testing.assert_close(kernels.sum((1, 2)), torch.ones(6))

    def test_a_level_motion_kernel_smears_along_its_row(self):
        level = colour.motion_kernels(full(0, 1), full(3, 1))[0]
        assert level[2].tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 0])
        upright = colour.motion_kernels(full(math.pi / 2, 1), full(5, 1))[0]
        torch.testing.assert_close(upright[:, 2], torch.full((5,), 0.2))

    def test_blur_is_each_images_own(self):
        images = pictures(2, 3, 9, 7)
        kernels = torch.rand(2, 5, 5, generator=generator(2)) / 25
        padded = torch.nn.functional.pad(images, (2, 2, 2, 2), mode="replicate")
        wanted = torch.zeros_like(images)
        for dy in range(5):
            for dx in range(5):
                wanted += kernels[:, dy, dx, None, None, None] * padded[:, :, dy : dy + 9, dx : dx + 7]
        torch.testing.assert_close(colour.blur(images, kernels), wanted)

    def test_median_is_the_median(self):
        images = pictures(2, 3, 9, 7)
        padded = torch.nn.functional.pad(images, (1, 1, 1, 1), mode="replicate")
        wanted = padded.unfold(2, 3, 1).unfold(3, 3, 1).reshape(2, 3, 9, 7, 9).median(-1).values
        assert torch.equal(colour.median_blur(images), wanted)

    def test_hsv_is_that_of_the_standard_library(self):
        images = pictures(1, 3, 6, 6)
        images[0, :, 0, 0], images[0, :, 0, 1], images[0, :, 0, 2] = 0.0, 0.5, torch.tensor([1.0, 0, 0])
        found = colour.to_hsv(images)
        wanted = [rgb_to_hsv(*pixel) for pixel in images[0].reshape(3, -1).T.tolist()]
        torch.testing.assert_close(found[0].reshape(3, -1).T, torch.tensor(wanted), atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(colour.from_hsv(found), images, atol=1e-6, rtol=0)

    def test_a_third_of_a_turn_makes_red_green(self):
        red = torch.zeros(1, 3, 2, 2)
        red[:, 0] = 0.8
        green = colour.shift_colours(red, full(1 / 3, 1), full(0, 1), full(0, 1))
        torch.testing.assert_close(green[0, :, 0, 0], torch.tensor([0.0, 0.8, 0.0]))

    def test_without_colours_only_the_value_shifts(self):
        grey = pictures(channels=1) * 0.5 + 0.1
        torch.testing.assert_close(colour.shift_colours(grey, full(0.1), full(0.1), full(0.05)), grey + 0.05)


class TestEqualisation:
    def test_tables_never_fall_and_end_at_one(self):
        level = (pictures(channels=1)[:, 0] * 255).long()
        tables = colour.level_tables(level, torch.linspace(1, 40, 6), 4, 5)
        assert tables.shape == (6, 4, 5, 256)
        assert (tables.diff(dim=-1) >= 0).all()
        torch.testing.assert_close(tables[..., -1], torch.ones(6, 4, 5))

    def test_tables_by_a_plain_loop(self):
        level = (pictures(2, 1, 12, 9)[:, 0] * 255).long()
        clip = torch.tensor([2.0, 30.0])
        found = colour.level_tables(level, clip, 3, 3)
        for one in range(2):
            for row in range(3):
                for column in range(3):
                    tile = level[one, row * 4 : row * 4 + 4, column * 3 : column * 3 + 3].reshape(-1)
                    histogram = torch.bincount(tile, minlength=256).float()
                    cut = histogram.clamp(max=max(1.0, clip[one].item() * 12 / 256))
                    wanted = (cut + (12 - cut.sum()) / 256).cumsum(0) / 12
                    torch.testing.assert_close(found[one, row, column], wanted)

    def test_without_a_limit_one_tile_is_plain_equalisation(self):
        images = (pictures(1, 1, 16, 16) * 0.3 * 255).round() / 255
        found = colour.equalise(images, full(1e6, 1), tiles=1)
        below = (images.reshape(-1)[:, None] >= images.reshape(-1)).float().mean(1)
        torch.testing.assert_close(found.reshape(-1), below)
        assert found.max() == 1

    def test_a_lighter_grey_never_becomes_the_darker(self):
        images = pictures(1, 1, 32, 32)
        found = colour.equalise(images, full(4, 1), tiles=1).reshape(-1)
        order = images.reshape(-1).argsort()
        # The same table for all pixels; grey within a level moves by less than a level.
        assert (found[order].diff() > -1.01 / 255).all()

    def test_raises_the_contrast_of_a_dull_image(self):
        images = pictures(height=64, width=64) * 0.2 + 0.4
        assert colour.equalise(images, full(4)).std() > 1.5 * images.std()

    def test_smaller_than_its_tiles(self):
        assert colour.equalise(pictures(height=5, width=3), full(4)).shape == (6, 3, 5, 3)


class TestGeometry:
    def test_a_quarter_turn(self):
        images = pictures()
        turned = image.shift_scale_rotate(images, torch.zeros(6, 2), full(1), full(math.pi / 2))
        torch.testing.assert_close(turned, images.rot90(1, (2, 3)), atol=1e-4, rtol=0)

    def test_half_a_turn_of_an_oblong(self):
        images = pictures(height=12, width=20)
        turned = image.shift_scale_rotate(images, torch.zeros(6, 2), full(1), full(math.pi))
        torch.testing.assert_close(turned, images.flip(2, 3), atol=1e-4, rtol=0)

    def test_a_turn_keeps_an_oblongs_proportions(self):
        images = torch.zeros(1, 1, 21, 41)
        images[0, 0, 10, 26] = 1  # six pixels right of the centre
        turned = image.shift_scale_rotate(images, torch.zeros(1, 2), full(1, 1), full(math.pi / 2, 1))
        assert turned[0, 0].argmax().item() == 4 * 41 + 20  # six above it

    def test_a_shift_moves_right_and_down_and_lets_black_in(self):
        images = pictures() * 0.5 + 0.5
        moved = image.shift_scale_rotate(images, torch.tensor([[0.1, 0.05]]).expand(6, 2), full(1), full(0))
        torch.testing.assert_close(moved[:, :, 1:, 2:], images[:, :, :-1, :-2], atol=1e-5, rtol=0)
        assert moved[:, :, 0].max() < 1e-5
        assert moved[..., :2].max() < 1e-5

    def test_a_shift_is_not_turned_or_scaled(self):
        images = torch.zeros(1, 1, 41, 41)
        images[0, 0, 20, 20] = 1
        moved = image.shift_scale_rotate(images, torch.tensor([[10 / 41, 0.0]]), full(1.1, 1), full(math.pi / 2, 1))
        assert moved[0, 0].argmax().item() == 20 * 41 + 30

    def test_scaling_enlarges(self):
        images = torch.zeros(1, 1, 40, 40)
        images[..., 10:30, 10:30] = 1
        found = image.shift_scale_rotate(images, torch.zeros(1, 2), full(1.5, 1), full(0, 1))
        assert found.sum().item() == pytest.approx(900, rel=0.02)

    def test_grid_distortion_shows_half_of_the_image_twice_as_large(self):
        images = pictures(1, 1, 10, 10)
        steps = torch.ones(1, 2, 5)
        steps[:, 0] = 0.5
        found = image.grid_distortion(images, steps)
        wanted = torch.nn.functional.interpolate(images, scale_factor=(1, 2), mode="bilinear")[..., :10]
        torch.testing.assert_close(found[..., :9], wanted[..., :9], atol=1e-5, rtol=0)

    def test_optical_distortion_keeps_the_centre_and_moves_the_corners(self):
        images = torch.zeros(2, 1, 41, 41)
        images[:, 0, 20, 20] = 1
        images[:, 0, 4, 4] = 1
        found = image.optical_distortion(images, torch.tensor([0.5, -0.5]))
        assert found[:, 0, 20, 20].tolist() == pytest.approx([1, 1])
        corner = [divmod(int(one[0, :15, :15].argmax()), 15)[0] for one in found]
        assert corner[0] > 4 > corner[1]

    def test_hole_size_and_place(self):
        images = torch.ones(3, 3, 40, 40)
        found = image.cutout(images, torch.tensor([[0.5, 0.5], [0.0, 0.5], [0.999, 0.999]]))
        assert (found == 0).sum((1, 2, 3)).tolist() == [3 * 15 * 15, 3 * 8 * 15, 3 * 8 * 8]
        assert not found[0, :, 13:28, 13:28].any()


class TestScheme:
    @pytest.mark.parametrize("part", ["transpose", "vertical_flip", "horizontal_flip"])
    def test_a_symmetry_twice_is_none(self, part):
        images, scheme = pictures(), only(part)
        once = scheme(images, generator(0))
        assert not torch.equal(once, images)
        assert torch.equal(scheme(once, generator(5)), images)

    def test_oblong_images_are_not_transposed(self):
        images = pictures(height=10)
        assert torch.equal(only("transpose")(images, generator(0)), images)

    def test_probability_zero_changes_nothing(self):
        images = pictures()
        assert torch.equal(only("none")(images, generator(0)), images)

    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("channels", [1, 3])
    def test_every_part_keeps_range_shape_and_dtype(self, part, channels):
        images = pictures(16, channels)
        before = images.clone()
        found = only(part)(images, generator(2))
        assert (found.shape, found.dtype, found.device) == (images.shape, images.dtype, images.device)
        assert found.min() >= 0
        assert found.max() <= 1
        assert torch.equal(images, before)
        assert (found != images).flatten(1).any(1).float().mean() > 0.8

    def test_double_precision_stays(self):
        assert ImageAugmentation()(pictures(dtype=torch.float64), generator(0)).dtype == torch.float64

    def test_is_seeded(self):
        images, scheme = pictures(), ImageAugmentation()
        assert torch.equal(scheme(images, generator(3)), scheme(images, generator(3)))
        assert not torch.equal(scheme(images, generator(3)), scheme(images, generator(4)))

    def test_an_image_does_not_depend_on_its_neighbours(self):
        images, scheme = pictures(32), ImageAugmentation()
        found = scheme(images, generator(3))
        others = images.clone()
        others[::2] = 0.5
        torch.testing.assert_close(scheme(others, generator(3))[1::2], found[1::2], atol=1e-6, rtol=0)

    def test_each_image_has_its_own_lot(self):
        images = pictures(1).expand(400, -1, -1, -1).contiguous()
        changed = (only("brightness", 0.75)(images, generator(0)) != images).flatten(1).any(1)
        assert changed.float().mean().item() == pytest.approx(0.75, abs=0.07)
        amounts = only("brightness")(images * 0.5 + 0.25, generator(0)).mean((1, 2, 3))
        assert amounts.unique().numel() > 300

    def test_tiny_images(self):
        assert ImageAugmentation()(pictures(32, 1, 8, 8), generator(0)).shape == (32, 1, 8, 8)

    def test_a_share_spares_the_symmetries(self):
        half = ImageAugmentation().scaled(0.5)
        assert (half.transpose, half.move, half.cutout) == (0.5, 0.425, 0.35)

    def test_refuses_what_is_no_probability(self):
        with pytest.raises(ValueError, match="cutout"):
            ImageAugmentation(cutout=1.5)

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_on_a_gpu(self):
        images = pictures().cuda()
        found = ImageAugmentation()(images, generator(0))
        assert found.device == images.device
        assert torch.equal(found, ImageAugmentation()(images, generator(0)))
        quiet = only("move")  # without the pixels' noise, a GPU gets what a CPU gets
        torch.testing.assert_close(
            quiet(images, generator(0)).cpu(), quiet(images.cpu(), generator(0)), atol=1e-4, rtol=0
        )
