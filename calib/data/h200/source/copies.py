# Host copies on one H200: what two events around a copy read, what the profiler gives the device, and what the call takes.
# Prints kind,bytes,event_us,device_us,pieces,call_us,host_us (medians; event and host times without the profiler).
import time, torch
from torch.profiler import profile, ProfilerActivity
dev = "cuda"
def med(f, n=21):
    ts, hs = [], []
    for _ in range(n):
        torch.cuda.synchronize()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); t = time.perf_counter(); f(); hs.append((time.perf_counter() - t) * 1e6); b.record()
        torch.cuda.synchronize(); ts.append(a.elapsed_time(b) * 1e3)
    return sorted(ts)[n // 2], sorted(hs)[n // 2]
print("kind,bytes,event_us,device_us,pieces,call_us,host_us")
for n in (1, 64, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 256 << 20):
    p = torch.empty(n, dtype=torch.uint8, pin_memory=True); g = torch.empty(n, dtype=torch.uint8); d = torch.empty(n, dtype=torch.uint8, device=dev)
    for kind, f in (("h2d_pinned", lambda: d.copy_(p, non_blocking=True)), ("d2h_pinned", lambda: p.copy_(d, non_blocking=True)),
                    ("h2d_pageable", lambda: d.copy_(g)), ("d2h_pageable", lambda: g.copy_(d))):
        for _ in range(5): f()
        event, host = med(f)
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
            for _ in range(21):
                f(); torch.cuda.synchronize()
        device, calls = [], []
        for e in prof.events():
            if e.name.startswith("Memcpy "): device.append(e.time_range.elapsed_us())
            if e.name == "cudaMemcpyAsync": calls.append(e.time_range.elapsed_us())
        pieces = len(device) / 21
        total = sorted(device)[len(device) // 2] * pieces if device else -1
        print(f"{kind},{n},{event:.2f},{total:.2f},{pieces:g},{sorted(calls)[len(calls)//2] if calls else -1:.2f},{host:.2f}", flush=True)
