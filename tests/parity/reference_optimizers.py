"""The Python twins of src/train's optimizers: torch.optim's where there is one, else the paper's algorithm a parameter at a time."""
import torch


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of arXiv 2302.06675, a parameter at a time."""

    def __init__(self, params, fused, **args):
        super().__init__(params, args)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                if group["weight_decay"]:
                    p.mul_(1 - lr * group["weight_decay"])
                p.add_((m * beta1).add_(p.grad, alpha=1 - beta1).sign_(), alpha=-lr)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class Lamb(torch.optim.Optimizer):
    """Algorithm 2 of arXiv 1904.00962 with bias correction, a parameter at a time."""

    def __init__(self, params, fused, **args):
        super().__init__(params, args)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                m = state.setdefault("exp_avg", torch.zeros_like(p))
                v = state.setdefault("exp_avg_sq", torch.zeros_like(p))
                t = state.setdefault("step", torch.zeros(()))
                t += 1
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                m_hat, v_hat = m / (1 - beta1 ** t.double()).to(p.dtype), v / (1 - beta2 ** t.double()).to(p.dtype)
                r = m_hat / (v_hat.sqrt() + group["eps"])
                if group["weight_decay"]:
                    r = r.add(p, alpha=group["weight_decay"])
                weight, length = p.norm(), r.norm()
                ratio = weight / length if weight > 0 and length > 0 else torch.ones((), dtype=p.dtype)
                p.add_(r * ratio, alpha=-group["lr"])


OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "lion": Lion, "lamb": Lamb}
