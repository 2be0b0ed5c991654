// Copies of one footprint timed three ways on an H200, and repeated writes: a lone launch between two events, forty queued
// launches between them, twenty passes inside one launch. Prints way,mb=..,10th,50th,90th percentile [us a copy] of 41 repeats.
// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdio>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
__global__ void cp(const uint4*p,uint4*q,size_t n,int it){size_t st=(size_t)gridDim.x*blockDim.x;for(int r=0;r<it;r++)for(size_t i=blockIdx.x*(size_t)blockDim.x+threadIdx.x;i<n;i+=st)q[i]=__ldcg(p+i);}
__global__ void wr(uint4*p,size_t n,int it){size_t st=(size_t)gridDim.x*blockDim.x;uint4 v{1,2,3,4};for(int r=0;r<it;r++)for(size_t i=blockIdx.x*(size_t)blockDim.x+threadIdx.x;i<n;i+=st)p[i]=v;}
__global__ void em(){}
template<class F>void t(const char*w,double mb,int div,F f){cudaEvent_t a,b;cudaEventCreate(&a);cudaEventCreate(&b);std::vector<float>v;for(int i=0;i<45;i++){cudaEventRecord(a);f();cudaEventRecord(b);cudaEventSynchronize(b);float m;cudaEventElapsedTime(&m,a,b);if(i>3)v.push_back(m*1e3f/div);}std::sort(v.begin(),v.end());printf("%s,mb=%g,%.3f,%.3f,%.3f\n",w,mb,v[4],v[20],v[36]);}
int main(){int SM=132;t("empty",0,1,[&]{em<<<SM*8,256>>>();});for(int rep=0;rep<2;rep++)for(double mb:{2.,4.,8.,12.,16.,20.,24.,28.,32.,36.,40.,44.,48.,52.,56.,64.}){size_t n=(size_t)(mb*1048576/16);uint4*p;cudaMalloc(&p,n*16);cudaMemset(p,1,n*16);
t("one",mb,1,[&]{cp<<<SM*8,256>>>(p,p+n/2,n/2,1);});
t("queued",mb,40,[&]{for(int i=0;i<40;i++)cp<<<SM*8,256>>>(p,p+n/2,n/2,1);});
t("inside",mb,20,[&]{cp<<<SM*8,256>>>(p,p+n/2,n/2,20);});
t("wr1024",mb,1024/mb,[&]{wr<<<SM*8,256>>>(p,n,1024/mb);});cudaFree(p);}}
