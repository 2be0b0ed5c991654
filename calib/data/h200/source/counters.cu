#define main micro_main
#include "micro.cu"
#undef main
#include <cuda_profiler_api.h>
static int prof=0;static FILE*lab;
static void go(const char*label,std::function<void()> f,int warm=3){for(int i=0;i<warm;i++)f();CK(cudaDeviceSynchronize());CK(cudaProfilerStart());f();CK(cudaDeviceSynchronize());CK(cudaProfilerStop());fprintf(lab,"%s\n",label);fflush(lab);}
__global__ void wr_rand(uint32_t*p,size_t lines,int per){uint64_t s=blockIdx.x*(uint64_t)blockDim.x+threadIdx.x;for(int k=0;k<per;k++){uint64_t z=(s*977+k)*0x9E3779B97f4A7C15ull;z^=z>>29;z*=0xBF58476D1CE4E5B9ull;z^=z>>32;p[(z%lines)*32]=k;}}
int main(int c,char**v){lab=fopen(v[1],"w");int SM=132;uint4*sink;CK(cudaMalloc(&sink,1<<20));char*p;size_t big=34ull<<30;CK(cudaMalloc(&p,big));CK(cudaMemset(p,1,big));char L[200];
  for(double mb:{0.5,2.,16.,32.,40.,48.,56.,64.,128.,512.}){size_t n=(size_t)(mb*1048576/16);int it=mb<100?std::max(4,(int)(512/mb)):1;sprintf(L,"read mb=%g it=%d",mb,it);go(L,[&]{rd<<<SM*8,256>>>((uint4*)p,n,sink,it);});
    sprintf(L,"write mb=%g it=%d",mb,it);go(L,[&]{wr<<<SM*8,256>>>((uint4*)p,n,it);});sprintf(L,"copy mb=%g",mb);go(L,[&]{cp<<<SM*8,256>>>((uint4*)p,(uint4*)p+n/2,n/2);});}
  for(int s:{1,2,4})for(double mb:{8.,16.,24.,31.,40.,62.}){size_t m=(size_t)(mb*1048576/16);sprintf(L,"read_ctas %d mb=%g",s,mb);go(L,[&]{rd<<<s,1024>>>((uint4*)p,m,sink,1);},4);}
  for(int rb:{16,32,64,128,256,512,768})for(double mb:{16.,32.,64.,128.,256.,4096.,32768.}){size_t rows=(size_t)(mb*1048576/rb);int n=1<<22;uint32_t*ix;CK(cudaMalloc(&ix,n*4ull));std::vector<uint32_t>h(n);uint64_t r=7;for(auto&x:h)x=hrng(r)%rows;CK(cudaMemcpy(ix,h.data(),n*4ull,cudaMemcpyHostToDevice));
    sprintf(L,"gather rb=%d mb=%g n=%d",rb,mb,n);go(L,[&]{gather<<<SM*8,256>>>((uint4*)p,ix,n,rb/16,sink);});CK(cudaFree(ix));}
  for(int mode=0;mode<3;mode++)for(uint32_t na:{4096u,65536u,1048576u,16777216u,268435456u}){int per=32;sprintf(L,"add_u32 mode=%d naddr=%u",mode,na);go(L,[&]{atom<unsigned><<<SM*8,256>>>((unsigned*)p,na,mode,per,1);});}
  for(double mb:{16.,64.,256.,4096.}){size_t lines=(size_t)(mb*1048576/128);sprintf(L,"wr_rand mb=%g ops=%d",mb,SM*8*256*16);go(L,[&]{wr_rand<<<SM*8,256>>>((uint32_t*)p,lines,16);});}
  // bounds
  for(int B:{4096,65536}){int T=30;size_t n=13800000/(size_t)(B*T)*(size_t)(B*T);int Lb=n/((size_t)B*T);n=(size_t)Lb*B*T;int64_t R=1000000;std::vector<int64_t> h(n),of((size_t)B*T+1),ro(T,R);uint64_t r=3;for(auto&x:h)x=hrng(r)%R;for(size_t i=0;i<of.size();i++)of[i]=i*Lb;
    int64_t*src,*ind,*off,*rows;unsigned long long*w;CK(cudaMalloc(&src,n*8));CK(cudaMalloc(&ind,n*8));CK(cudaMalloc(&off,of.size()*8));CK(cudaMalloc(&rows,T*8));CK(cudaMalloc(&w,8));CK(cudaMemcpy(src,h.data(),n*8,cudaMemcpyHostToDevice));CK(cudaMemcpy(off,of.data(),of.size()*8,cudaMemcpyHostToDevice));CK(cudaMemcpy(rows,ro.data(),T*8,cudaMemcpyHostToDevice));
    for(int bx:{32,8})for(double vr:{0.,0.05}){dim3 blk(bx,1024/bx),grd((B+blk.y-1)/blk.y,T);sprintf(L,"bounds B=%d bag=%d bx=%d rate=%g",B,Lb,bx,vr);for(int k=0;k<2;k++){poke<<<(n+255)/256,256>>>(ind,n,src,(unsigned)(vr*4294967296.0),R+5);bounds<<<grd,blk>>>(ind,off,rows,B,T,w,0);}poke<<<(n+255)/256,256>>>(ind,n,src,(unsigned)(vr*4294967296.0),R+5);go(L,[&]{bounds<<<grd,blk>>>(ind,off,rows,B,T,w,0);},0);}
    CK(cudaFree(src));CK(cudaFree(ind));CK(cudaFree(off));CK(cudaFree(rows));CK(cudaFree(w));}
  // gis
  for(int D:{32,128})for(int rows:{1000,100000,10000000})for(int run:{1,16}){int n=1<<21;if((size_t)rows*D*4>(8ull<<30))continue;float*w=(float*)p,*go_;int*ix;CK(cudaMalloc(&go_,(size_t)n*D*4));CK(cudaMemset(go_,0,(size_t)n*D*4));CK(cudaMalloc(&ix,n*4ull));std::vector<int>h(n);uint64_t r=11;int cur=0;for(int i=0;i<n;i++){if(i%run==0)cur=hrng(r)%rows;h[i]=cur;}CK(cudaMemcpy(ix,h.data(),n*4ull,cudaMemcpyHostToDevice));
    sprintf(L,"gis_f D=%d rows=%d run=%d",D,rows,run);go(L,[&]{gis_f<<<((size_t)n*D+255)/256,256>>>(w,ix,n,D,go_);});for(int ch=0;ch<2;ch++){sprintf(L,"gis_b D=%d rows=%d run=%d cache=%d",D,rows,run,ch);go(L,[&]{gis_b<<<(n/16*32+255)/256,256>>>(w,ix,n,D,go_,ch,16);});}CK(cudaFree(go_));CK(cudaFree(ix));}
  // tbe
  struct Cfg{int B,T,L,D;};for(Cfg cf:{Cfg{65536,5,55,192},Cfg{16384,10,40,128}})for(size_t R:{100000ul,1000000ul})for(double al:{1.0,1.15})for(int half=0;half<2;half++){size_t n=(size_t)cf.B*cf.T*cf.L;size_t es=half?2:4;size_t wb=(size_t)cf.T*R*cf.D*es;if(wb>big)continue;void*w=p,*o;int*ix;CK(cudaMalloc(&o,(size_t)cf.B*cf.T*cf.D*es));CK(cudaMemset(o,0,(size_t)cf.B*cf.T*cf.D*es));CK(cudaMalloc(&ix,n*4));std::vector<int>h(n);uint64_t r=5;if(al<=1)for(auto&x:h)x=hrng(r)%R;else for(auto&x:h){for(;;){double U=1-(hrng(r)>>11)*0x1.0p-53,V=(hrng(r)>>11)*0x1.0p-53;double X=floor(pow(U,-1/(al-1)));double T_=pow(1+1/X,al-1);if(V*X*(T_-1)/(pow(2,al-1)-1)<=T_/pow(2,al-1)){if(X>9e18)continue;x=(int)((uint64_t)X%R);break;}}}
    CK(cudaMemcpy(ix,h.data(),n*4,cudaMemcpyHostToDevice));int g=((size_t)cf.B*cf.T*32+255)/256;
    sprintf(L,"tbe_f B=%d D=%d R=%zu al=%g half=%d",cf.B,cf.D,R,al,half);go(L,[&]{if(half)tbe_f<__half,uint4><<<g,256>>>((__half*)w,ix,cf.B,cf.T,cf.L,cf.D,R,(__half*)o);else tbe_f<float,float4><<<g,256>>>((float*)w,ix,cf.B,cf.T,cf.L,cf.D,R,(float*)o);},2);
    sprintf(L,"tbe_bat B=%d D=%d R=%zu al=%g half=%d",cf.B,cf.D,R,al,half);go(L,[&]{if(half)tbe_b_at_h<<<g,256>>>((__half*)w,ix,cf.B,cf.T,cf.L,cf.D,R,(__half*)o);else tbe_b_at_f<<<g,256>>>((float*)w,ix,cf.B,cf.T,cf.L,cf.D,R,(float*)o);},2);
    CK(cudaFree(o));CK(cudaFree(ix));}
  return 0;}
