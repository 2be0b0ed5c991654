import torch
from torch.nn import functional as F
dev='cuda'
def emb(B,L,D,R,T):
    w=torch.randn(R,D,device=dev,dtype=T); i=torch.randint(0,R,(B*L,),device=dev); o=torch.arange(0,B*L,L,device=dev)
    F.embedding_bag(i,w,o,mode='sum'); torch.cuda.synchronize()
    torch.cuda.profiler.start(); F.embedding_bag(i,w,o,mode='sum'); torch.cuda.synchronize(); torch.cuda.profiler.stop()
for c in ((65536,55,192,100000),(4096,100,128,1000000),(8192,20,64,1000000)):
    for T in (torch.float32,torch.float16): emb(*c,T)
x=torch.randn(1<<24,device=dev); xb=x.bfloat16(); y=torch.randn(1<<24,device=dev)
m=torch.randn(65536,256,device=dev).bfloat16(); w=torch.ones(256,device=dev).bfloat16(); m96=torch.randn(131072,96,device=dev).bfloat16()
fs=[lambda:torch.add(x,y),lambda:F.gelu(x),lambda:F.gelu(xb),lambda:torch.sigmoid(x),lambda:torch.sigmoid(xb),lambda:x.sum(),lambda:xb.sum(),lambda:F.layer_norm(m,(256,),w,w),lambda:F.softmax(m,-1),lambda:m.sum(0),lambda:m96.sum(0),lambda:m.sum(1),lambda:m.t().contiguous(),lambda:torch.cat((m,m,m,m),1),lambda:xb.float(),lambda:x.bfloat16(),lambda:torch.mul(x,2.0)]
D=64
t=torch.zeros(100000,D,device=dev); s=torch.randn(1<<20,D,device=dev); ii=torch.randint(0,100000,(1<<20,),device=dev)
fs+=[lambda:t.index_add_(0,ii,s),lambda:torch.index_select(t,0,ii)]
for f in fs:
    f(); torch.cuda.synchronize(); torch.cuda.profiler.start(); f(); torch.cuda.synchronize(); torch.cuda.profiler.stop()
