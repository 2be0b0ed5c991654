// Sweeps of few blocks by few or many SMs, and chains beside chains: rates and latencies of an H200 under partial load.
// nvcc -O3 -arch=sm_90 sweeps.cu
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
#define CK(x) do{cudaError_t e=(x);if(e){printf("err %s line %d\n",cudaGetErrorString(e),__LINE__);exit(1);}}while(0)
__device__ __forceinline__ uint32_t ldcg(const uint32_t*p){uint32_t v;asm volatile("ld.global.cg.u32 %0,[%1];":"=r"(v):"l"(p):"memory");return v;}
__device__ __forceinline__ uint32_t ldca(const uint32_t*p){uint32_t v;asm volatile("ld.global.ca.u32 %0,[%1];":"=r"(v):"l"(p):"memory");return v;}
// warp 0: timed chain of n loads (mode 0 cg, 1 ca). warps 1..: chains on `slow` until stop
__global__ void chains(const uint32_t*fast,const uint32_t*slow,uint32_t slowmask,int n,int mode,int other,int skip,long long*out,uint32_t*sink){
  __shared__ volatile int stop; if(threadIdx.x==0)stop=0; __syncthreads();
  int w=threadIdx.x/32;
  if(w==0){ if(threadIdx.x==0){uint32_t i=0; for(int k=0;k<64;k++) i=mode?ldca(fast+i):ldcg(fast+i);
     long long t=clock64(); for(int k=0;k<n;k++) i=mode?ldca(fast+i):ldcg(fast+i); long long e=clock64(); out[0]=e-t; sink[0]=i; stop=1;} }
  else if(w%skip==0){ if(threadIdx.x%32==0){ uint32_t i=(w*7919u)&slowmask; long long cnt=0,t=clock64(); while(!stop){ i=other==0?ldcg(slow+i):ldca(slow+i); cnt++; } long long e=clock64(); out[w]=(e-t)/(cnt?cnt:1); sink[w]=i;} }
}
template<int B> __global__ void wide(const uint4*p,int n,long long*out,uint32_t*sink,int lanes){ // dependent loads: next index from loaded value (zeros) 
  uint32_t i=threadIdx.x; uint32_t acc=0; long long t=clock64();
  if(threadIdx.x<lanes) for(int k=0;k<n;k++){ uint4 v; if(B==16){asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3},[%4];":"=r"(v.x),"=r"(v.y),"=r"(v.z),"=r"(v.w):"l"(p+i):"memory");acc=v.x+v.y+v.z+v.w;} else {uint32_t x;asm volatile("ld.global.cg.u32 %0,[%1];":"=r"(x):"l"((const uint32_t*)p+i):"memory");acc=x;} i=((k+1)*lanes+threadIdx.x+acc)&4095; }
  long long e=clock64(); if(threadIdx.x==0){out[0]=e-t;} sink[threadIdx.x]=acc+i; }
__global__ void rd(const uint4*p,size_t per,int it,uint32_t*sink){ // each block sweeps its own `per` uint4
  const uint4*q=p+per*blockIdx.x; uint32_t a=0; for(int k=0;k<it;k++) for(size_t i=threadIdx.x;i<per;i+=blockDim.x){uint4 v;asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3},[%4];":"=r"(v.x),"=r"(v.y),"=r"(v.z),"=r"(v.w):"l"(q+i):"memory");a+=v.x+v.y+v.z+v.w;} if(a==0x12345)sink[0]=a; }
__global__ void wr(uint4*p,size_t per,int it){ uint4*q=p+per*blockIdx.x; for(int k=0;k<it;k++) for(size_t i=threadIdx.x;i<per;i+=blockDim.x){uint4 v={(uint32_t)k,0,0,0};asm volatile("st.global.v4.u32 [%0],{%1,%2,%3,%4};"::"l"(q+i),"r"(v.x),"r"(v.y),"r"(v.z),"r"(v.w):"memory");} }
// grid-stride sweeps as the bandwidth table
__global__ void wr2(uint4*p,size_t n,int it){ size_t s=(size_t)gridDim.x*blockDim.x; for(int k=0;k<it;k++) for(size_t i=blockIdx.x*(size_t)blockDim.x+threadIdx.x;i<n;i+=s){uint4 v={(uint32_t)k,0,0,0};asm volatile("st.global.v4.u32 [%0],{%1,%2,%3,%4};"::"l"(p+i),"r"(v.x),"r"(v.y),"r"(v.z),"r"(v.w):"memory");} }
int main(){
  uint32_t*fast,*slow,*sink; long long*out,h[64]; size_t slown=1ull<<28; CK(cudaMalloc(&fast,1<<20)); CK(cudaMalloc(&slow,slown*4)); CK(cudaMalloc(&out,8*64)); CK(cudaMalloc(&sink,4*4096));
  { int lines=128; std::vector<uint32_t> f(1<<18,0),perm(lines); for(int i=0;i<lines;i++)perm[i]=i; srand(1); for(int i=lines-1;i>0;i--)std::swap(perm[i],perm[rand()%(i+1)]); for(int i=0;i<lines;i++) f[perm[i]*32]=perm[(i+1)%lines]*32; CK(cudaMemcpy(fast,f.data(),1<<20,cudaMemcpyHostToDevice)); }
  { std::vector<uint32_t> s(slown); uint64_t x=88172645463325252ull; for(size_t i=0;i<slown;i++){x^=x<<13;x^=x>>7;x^=x<<17;s[i]=(uint32_t)((x>>20)&(slown-1))&~31u;} CK(cudaMemcpy(slow,s.data(),slown*4,cudaMemcpyHostToDevice)); }
  auto run=[&](const char*n,int thr,int mode,int other,const uint32_t*o,uint32_t mask,int skip){ for(int r=0;r<2;r++){chains<<<1,thr>>>(fast,o,mask,20000,mode,other,skip,out,sink);CK(cudaDeviceSynchronize());} CK(cudaMemcpy(h,out,sizeof h,cudaMemcpyDeviceToHost)); printf("order,%s,threads=%d;skip=%d,%.1f cyc fast, other %lld\n",n,thr,skip,h[0]/20000.,thr>32?h[skip]:0); };
  run("l2_alone",32,0,0,slow,slown-1,1);
  for(int thr:{64,96,160,288,544}) run("l2_with_dram",thr,0,0,slow,slown-1,1);
  run("l2_with_dram_same_smsp",160,0,0,slow,slown-1,4);
  run("l2_with_dram_same_smsp",544,0,0,slow,slown-1,4);
  for(int thr:{64,160,544}) run("l2_with_l2",thr,0,0,fast,(1u<<12)-1,1);
  run("l1_alone",32,1,0,slow,slown-1,1);
  for(int thr:{64,96,160,288,544}) run("l1_with_dram",thr,1,0,slow,slown-1,1);
  for(int thr:{64,160,544}) run("l1_with_l2",thr,1,0,fast,(1u<<12)-1,1);
  CK(cudaMemset(fast,0,1<<20));
  for(int l:{1,8,16,32}){ for(int r=0;r<2;r++)wide<16><<<1,32>>>((uint4*)fast,4000,out,sink,l); CK(cudaMemcpy(h,out,8,cudaMemcpyDeviceToHost)); printf("wide,b16,lanes=%d,%.1f\n",l,h[0]/4000.); for(int r=0;r<2;r++)wide<4><<<1,32>>>((uint4*)fast,4000,out,sink,l); CK(cudaMemcpy(h,out,8,cudaMemcpyDeviceToHost)); printf("wide,b4,lanes=%d,%.1f\n",l,h[0]/4000.);}
  uint4*big; CK(cudaMalloc(&big,256u<<20)); CK(cudaMemset(big,0,256u<<20)); cudaEvent_t a,b; cudaEventCreate(&a);cudaEventCreate(&b); float ms;
  for(int kind=0;kind<2;kind++) for(int sms:{1,2,8,16,33,66,132}) for(int thr:{32,64,128,256,512,1024}) for(size_t kb:{4,16,64,128,256}){ if(kb*1024/16<(size_t)thr&&kb*1024/16*4<(size_t)thr)continue; size_t per=kb*64; int it=(int)(((size_t)(thr>=256?16:4)<<20)/(kb*1024)); float best=1e9; for(int r=0;r<3;r++){cudaEventRecord(a); if(kind)wr<<<sms,thr>>>(big,per,it); else rd<<<sms,thr>>>(big,per,it,sink); cudaEventRecord(b);CK(cudaEventSynchronize(b));cudaEventElapsedTime(&ms,a,b);best=std::min(best,ms);} printf("rate,%s,sms=%d;threads=%d;kb=%zu,%.1f us,%.2f B/ns/sm\n",kind?"write":"read",sms,thr,kb,best*1e3,(double)per*16*it/(best*1e6)); }
  for(double mb:{0.25,0.5,1.,2.,3.,4.,6.,8.,12.,16.,24.,32.}){ size_t n=(size_t)(mb*65536); int it=(int)(2048/mb); float best=1e9; for(int r=0;r<3;r++){cudaEventRecord(a); wr2<<<1056,256>>>(big,n,it); cudaEventRecord(b);CK(cudaEventSynchronize(b));cudaEventElapsedTime(&ms,a,b);best=std::min(best,ms);} printf("sweep,write,mb=%g;it=%d,%.1f us\n",mb,it,best*1e3);}
  return 0; }
