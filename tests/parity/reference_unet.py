"""The Python twin of src/model/unet.cpp."""

import torch
from torch import nn

CONV = {2: nn.Conv2d, 3: nn.Conv3d}
CONV_TRANSPOSE = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
POOL = {2: nn.MaxPool2d, 3: nn.MaxPool3d}
NORM = {(2, "instance"): nn.InstanceNorm2d, (3, "instance"): nn.InstanceNorm3d, (2, "batch"): nn.BatchNorm2d, (3, "batch"): nn.BatchNorm3d}


class DoubleConv(nn.Module):
    def __init__(self, dims, channels_in, channels_out, norm):
        super().__init__()
        self.conv1 = CONV[dims](channels_in, channels_out, 3, padding=1, bias=False)
        self.norm1 = NORM[dims, norm](channels_out, affine=True)
        self.conv2 = CONV[dims](channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = NORM[dims, norm](channels_out, affine=True)

    def forward(self, x):
        x = self.norm1(self.conv1(x)).relu_()
        return self.norm2(self.conv2(x)).relu_()


class Up(nn.Module):
    def __init__(self, dims, channels, norm):
        super().__init__()
        self.up = CONV_TRANSPOSE[dims](2 * channels, channels, 2, stride=2)
        self.conv = DoubleConv(dims, 2 * channels, channels, norm)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], dim=1))


class UNet(nn.Module):
    """Images [n, in_channels, ...] of `dims` dimensions to logits [n, num_classes, ...]."""

    def __init__(self, dims, in_channels, num_classes=2, width=32, levels=4, norm="instance"):
        super().__init__()
        widths = [width * 2**level for level in range(levels)]
        self.encoder = nn.ModuleList(DoubleConv(dims, a, b, norm) for a, b in zip([in_channels, *widths], widths))
        self.bottleneck = DoubleConv(dims, widths[-1], width * 2**levels, norm)
        self.decoder = nn.ModuleList(Up(dims, channels, norm) for channels in reversed(widths))
        self.head = CONV[dims](width, num_classes, 1)
        self.halve = POOL[dims](2)

    def forward(self, x):
        skips = []
        for level in self.encoder:
            skips.append(level(x))
            x = self.halve(skips[-1])
        x = self.bottleneck(x)
        for level in self.decoder:
            x = level(x, skips.pop())
        return self.head(x)
