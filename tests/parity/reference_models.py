"""The Python twins of src/model: same names, same order of construction, same results.

Imported by the parity tests and by reference_golden.py. As a script it writes a model's initial weights as safetensors:

    reference_models.py small_cnn 1 weights.safetensors '{"in_channels": 1, "num_classes": 10}'

A twin's initial weights after torch.manual_seed(seed) are the program's, bit for bit. Double precision is built in float and
then converted, so that both precisions start from the same numbers.
"""

import functools
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import resnet as tv
from torchvision.models.vision_transformer import VisionTransformer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from reference_gpt import GPT  # noqa: E402
from reference_unet import UNet  # noqa: E402


class MLP(nn.Module):
    """fc1 relu dropout, fc2 relu dropout, ..., the last one without."""

    def __init__(self, in_features, hidden, num_classes, dropout=0.0):
        super().__init__()
        widths = [in_features, *hidden, num_classes]
        self.depth = len(widths) - 1
        self.dropout = dropout
        for i in range(self.depth):
            setattr(self, f"fc{i + 1}", nn.Linear(widths[i], widths[i + 1]))

    def forward(self, x):
        x = x.flatten(1)
        for i in range(1, self.depth):
            x = F.relu(getattr(self, f"fc{i}")(x))
            x = F.dropout(x, self.dropout, self.training)
        return getattr(self, f"fc{self.depth}")(x)


class SmallCNN(nn.Module):
    """For 28 x 28 images."""

    def __init__(self, in_channels, num_classes, dropout=0.0):
        super().__init__()
        self.dropout = dropout
        self.conv1 = nn.Conv2d(in_channels, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(3136, 128)
        self.fc2 = nn.Linear(128, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.dropout(F.relu(self.fc1(x.flatten(1))), self.dropout, self.training)
        return self.fc2(x)


class ResNet(tv.ResNet):
    """torchvision's ResNet, whose conv1 takes `in_channels` channels from the start (torchvision has 3 written in)."""

    def __init__(self, block, layers, in_channels, num_classes):
        nn.Module.__init__(self)
        self._norm_layer = nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = 64, 1, 1, 64
        self.conv1 = nn.Conv2d(in_channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2)
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2)
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def resnet(name, block, layers):
    def make(in_channels, num_classes):
        if in_channels == 3:
            return getattr(tv, name)(weights=None, num_classes=num_classes)
        return ResNet(block, layers, in_channels, num_classes)
    return make


def vit(heads, width, mlp_width):
    def make(image_size, num_classes, dropout=0.0):
        return VisionTransformer(image_size, 16, 12, heads, width, mlp_width, dropout=dropout, num_classes=num_classes)
    return make


TWINS = {"mlp": MLP, "small_cnn": SmallCNN,
         "resnet18": resnet("resnet18", tv.BasicBlock, [2, 2, 2, 2]), "resnet34": resnet("resnet34", tv.BasicBlock, [3, 4, 6, 3]),
         "resnet50": resnet("resnet50", tv.Bottleneck, [3, 4, 6, 3]), "resnet101": resnet("resnet101", tv.Bottleneck, [3, 4, 23, 3]),
         "vit_b_16": vit(12, 768, 3072), "vit_s_16": vit(6, 384, 1536),
         "gpt": GPT, "unet2d": functools.partial(UNet, 2, in_channels=3), "unet3d": functools.partial(UNet, 3, in_channels=1)}


def make_model(name, seed, args, dtype=torch.float32):
    """The twin of gputrain::make_model."""
    torch.manual_seed(seed)
    return TWINS[name](**args).to(dtype)


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in TWINS:
        sys.exit(f"usage: reference_models.py {{{','.join(TWINS)}}} SEED OUT.safetensors ARGS_JSON")
    from safetensors.torch import save_file

    name, seed, path, args = sys.argv[1:]
    model = make_model(name, int(seed), json.loads(args))
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}  # a tied one once
    save_file({key: value.detach().contiguous() for key, value in tensors.items()}, path)


if __name__ == "__main__":
    main()
