/* The recogniser: names of real kernels with their operators' tensors -> suite, kernel, parameters; what the registry
 * accepts; the recognised share of the fixtures. */
#include "tests/trace/trace_test.h"
#include "workloads/kernels/kernel.h"
#include "workloads/trace/trace_internal.h"

/* One launch as the recorded steps have it. `around`: an operator outside the innermost one. */
struct site_case {
    const char *claim, *kernel, *operator_name, *dims, *types, *strides, *concrete, *around, *around_dims,
        *around_concrete;
    uint64_t grid[3], block[3];
    const char *category, *suite, *name, *params;
};

static const struct site_case site_cases[] = {
    { "a product's M, N, K, and nvjet's tile swapped to the framework's view by its third letter",
      "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT",
      "aten::addmm",
      "[[1024],[8192,3456],[3456,1024],[],[]]",
      "[\"c10::BFloat16\",\"c10::BFloat16\",\"c10::BFloat16\",\"Scalar\",\"Scalar\"]",
      "[[1],[3456,1],[1,3456],[],[]]",
      "[]",
      NULL,
      NULL,
      NULL,
      { 2, 66, 1 },
      { 384, 1, 1 },
      "gemm",
      "gemm",
      "tile",
      "M=8192;N=1024;K=3456;dtype=bf16;trans=nt;tile_m=256;tile_n=128;tile_k=64;stages=4;cluster_m=1;cluster_"
      "n=2;bias=1" },
    { "without the T the first dimension covers N: 128 x 256 tiles of 32768 x 128 are 128 of them, as the "
      "grid says",
      "nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_bias_TNN",
      "aten::addmm",
      "[[128],[32768,512],[512,128],[],[]]",
      "[\"c10::BFloat16\",\"c10::BFloat16\",\"c10::BFloat16\",\"Scalar\",\"Scalar\"]",
      "[[1],[512,1],[1,512],[],[]]",
      "[]",
      NULL,
      NULL,
      NULL,
      { 2, 64, 1 },
      { 384, 1, 1 },
      "gemm",
      "gemm",
      "tile",
      "M=32768;N=128;K=512;dtype=bf16;trans=nt;tile_m=256;tile_n=128;tile_k=64;stages=4;cluster_m=2;cluster_"
      "n=1;bias=1" },
    { "split K is workgroups over tiles: 4 x 11 tiles of 128 x 192 on 132 workgroups are 3 each",
      "nvjet_sm90_tst_128x192_64x5_2x1_v_bz_coopB_splitK_NTN",
      "aten::mm",
      "[[2048,32768],[32768,512]]",
      "[\"c10::BFloat16\",\"c10::BFloat16\"]",
      "[[1,2048],[512,1]]",
      "[]",
      NULL,
      NULL,
      NULL,
      { 2, 66, 1 },
      { 384, 1, 1 },
      "gemm",
      "gemm",
      "tile",
      "M=2048;N=512;K=32768;dtype=bf16;trans=tn;tile_m=192;tile_n=128;tile_k=64;stages=5;split_k=3;reduction=0;cluster_m="
      "1;cluster_n=2" },
    { "a vector result: the long tile side along the long dimension",
      "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_NNT",
      "aten::mm",
      "[[1,8192],[8192,256]]",
      "[\"c10::BFloat16\",\"c10::BFloat16\"]",
      "[[1,1],[256,1]]",
      "[]",
      NULL,
      NULL,
      NULL,
      { 4, 6, 1 },
      { 384, 1, 1 },
      "gemm",
      "gemm",
      "tile",
      "M=1;N=256;K=8192;dtype=bf16;trans=nn;tile_m=8;tile_n=64;tile_k=64;stages=16;split_k=6;reduction=0;cluster_m=1;"
      "cluster_n=4" },
    { "batched, operands through registers, one stage is no pipeline",
      "void "
      "cutlass::Kernel2<cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align1>(cutlass_75_wmma_"
      "tensorop_bf16_"
      "s161616gemm_bf16_32x32_32x1_tn_align1::Params)",
      "aten::bmm",
      "[[8192,27,64],[8192,64,27]]",
      "[\"c10::BFloat16\",\"c10::BFloat16\"]",
      "[[1728,64,1],[1728,1,64]]",
      "[]",
      NULL,
      NULL,
      NULL,
      { 1, 1, 8192 },
      { 128, 1, 1 },
      "gemm",
      "gemm",
      "tile",
      "batch=8192;M=27;N=27;K=64;dtype=bf16;trans=nt;tile_m=32;tile_n=32;tile_k=32;style=register" },
    { "Tensile's macro tile, column-major like the others",
      "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI16x16x16x1_SN_LDSB1",
      "aten::mm",
      "[[4096,1024],[1024,2048]]",
      "[\"c10::BFloat16\",\"c10::BFloat16\"]",
      "[[1024,1],[2048,1]]",
      "[]",
      NULL,
      NULL,
      NULL,
      { 0, 0, 0 },
      { 0, 0, 0 },
      "gemm",
      "gemm",
      "tile",
      "M=4096;N=2048;K=1024;dtype=bf16;trans=nn;tile_m=128;tile_n=256;tile_k=64" },
    { "an unnamed tile is left to the rule; fp32 on vector units",
      "ampere_sgemm_generic_kernel",
      "aten::mm",
      "[[64,32],[32,16]]",
      "[\"float\",\"float\"]",
      "[[32,1],[16,1]]",
      "[]",
      NULL,
      NULL,
      NULL,
      { 0, 0, 0 },
      { 0, 0, 0 },
      "gemm",
      "gemm",
      "mm",
      "M=64;N=16;K=32;dtype=fp32;trans=nn" },
    { "attention from the framework's operator, whatever the library's layout",
      "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1_kernel0_0",
      "aten::_cudnn_attention_forward",
      "[[32,1024,8,64]]",
      "[\"c10::BFloat16\"]",
      "[[1,1,1,1]]",
      "[\"\"]",
      "aten::scaled_dot_product_attention",
      "[[32,8,1024,64],[32,8,1024,64],[32,8,1024,64],[],[],[]]",
      "[\"\",\"\",\"\",\"\",\"0.\",\"True\"]",
      { 132, 1, 1 },
      { 384, 1, 1 },
      "attention",
      "attention",
      "sdpa_fwd",
      "b=32;h=8;s=1024;d=64;causal=1;dtype=bf16" },
    { "fewer heads and another length of keys",
      "flash_fwd_splitkv_kernel",
      "aten::_flash_attention_forward",
      "[]",
      "[]",
      "[]",
      "[]",
      "aten::_scaled_dot_product_flash_attention",
      "[[4,16,512,128],[4,4,2048,128],[4,4,2048,128],[],[]]",
      "[\"\",\"\",\"\",\"0.\",\"False\"]",
      { 0, 0, 0 },
      { 0, 0, 0 },
      "attention",
      "attention",
      "sdpa_fwd",
      "b=4;h=16;s=512;d=128;causal=0;kv_heads=4;s_kv=2048;dtype=bf16" },
    { "rows and columns of a norm",
      "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int)",
      "aten::native_layer_norm",
      "[[32,1024,512],[],[512],[512],[]]",
      "[\"float\",\"ScalarList\",\"float\",\"float\",\"Scalar\"]",
      "[[524288,512,1],[],[1],[1],[]]",
      "[\"\",\"[512]\",\"\",\"\",\"1e-05\"]",
      NULL,
      NULL,
      NULL,
      { 32768, 1, 1 },
      { 32, 4, 1 },
      "normalisation",
      "norm",
      "layer_forward",
      "rows=32768;cols=512;dtype=fp32" },
    { "its gradient for the weights",
      "void GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 32u, 256u, false, true, false>(long)",
      "aten::native_layer_norm_backward",
      "[[8,1024,2048],[8,1024,2048],[],[8,1024,1],[8,1024,1],[2048],[2048],[]]",
      "[\"float\",\"float\",\"ScalarList\",\"float\",\"float\",\"float\",\"float\",\"ScalarList\"]",
      NULL,
      "[\"\",\"\",\"[2048]\",\"\",\"\",\"\",\"\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 64, 1, 1 },
      { 32, 32, 1 },
      "normalisation",
      "norm",
      "layer_grad_weight",
      "rows=8192;cols=2048;dtype=fp32" },
    { "log-softmax over the last dimension",
      "void cunn_SoftMaxBackward<4, float, float, float, LogSoftMaxBackwardEpilogue>(float*)",
      "aten::_log_softmax_backward_data",
      "[[8192,50304],[8192,50304],[],[]]",
      "[\"float\",\"float\",\"Scalar\",\"Scalar\"]",
      NULL,
      "[\"\",\"\",\"1\",\"6\"]",
      NULL,
      NULL,
      NULL,
      { 8192, 1, 1 },
      { 512, 1, 1 },
      "normalisation",
      "norm",
      "softmax_backward",
      "rows=8192;cols=50304;dtype_in=fp32;log=1" },
    { "sum over the outer dimension",
      "void reduce_kernel<128, 4, ReduceOp<c10::BFloat16>>(ReduceOp)",
      "aten::sum",
      "[[8192,3456],[],[],[]]",
      "[\"c10::BFloat16\",\"ScalarList\",\"Scalar\",\"\"]",
      NULL,
      "[\"\",\"[0]\",\"True\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 27, 79, 1 },
      { 32, 4, 1 },
      "reduction",
      "reduction",
      "columns",
      "rows=8192;cols=3456;dtype_in=bf16" },
    { "sum over the inner dimension",
      "void reduce_kernel<512, 1, ReduceOp<float>>(ReduceOp)",
      "aten::sum",
      "[[64,32,16],[],[],[]]",
      "[\"float\",\"ScalarList\",\"Scalar\",\"\"]",
      NULL,
      "[\"\",\"[-1]\",\"False\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 1, 1, 1 },
      { 512, 1, 1 },
      "reduction",
      "reduction",
      "rows",
      "rows=2048;cols=16;dtype_in=fp32" },
    { "mean of everything",
      "void reduce_kernel<512, 1, ReduceOp<float, MeanOps<float> >>(ReduceOp)",
      "aten::mean",
      "[[8192,1],[],[],[]]",
      "[\"float\",\"ScalarList\",\"Scalar\",\"\"]",
      NULL,
      "[\"\",\"[]\",\"False\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 1, 1, 1 },
      { 512, 1, 1 },
      "reduction",
      "reduction",
      "all",
      "n=8192;dtype_in=fp32" },
    { "an embedding bag of 100 lookups",
      "void EmbeddingBag_updateOutputKernel_sum_mean<float, long>(long const*)",
      "aten::_embedding_bag",
      "[[1000000,128],[819200],[8192],[],[],[],[],[],[]]",
      "[\"float\",\"long int\",\"long int\",\"Scalar\",\"Scalar\",\"Scalar\",\"\",\"Scalar\",\"Scalar\"]",
      NULL,
      "[\"\",\"\",\"\",\"False\",\"0\",\"True\",\"\",\"False\",\"-1\"]",
      NULL,
      NULL,
      NULL,
      { 1024, 1, 1 },
      { 32, 8, 1 },
      "embedding",
      "embedding",
      "bag_forward",
      "B=8192;L=100;D=128;rows=1000000;dtype=fp32" },
    { "rows added into a table",
      "void indexFuncLargeIndex<float, long, unsigned int, 2, 2, -2, true, ReduceAdd>(at)",
      "aten::index_add_",
      "[[1000000,128],[],[819200],[819200,128],[]]",
      "[\"float\",\"Scalar\",\"long int\",\"float\",\"Scalar\"]",
      NULL,
      "[\"\",\"0\",\"\",\"\",\"-0.01\"]",
      NULL,
      NULL,
      NULL,
      { 1056, 1, 1 },
      { 128, 1, 1 },
      "embedding",
      "scatter",
      "index_add",
      "n=819200;D=128;rows=1000000;dtype=fp32" },
    { "rows gathered through an expanded index",
      "void vectorized_gather_kernel<16, long>(char*)",
      "aten::gather",
      "[[8192,128],[],[49152,128],[],[49152,128]]",
      "[\"float\",\"Scalar\",\"long int\",\"Scalar\",\"float\"]",
      "[[3456,1],[],[1,0],[],[128,1]]",
      "[\"\",\"0\",\"\",\"False\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 49152, 1, 1 },
      { 32, 1, 1 },
      "embedding",
      "scatter",
      "index_select",
      "n=49152;D=128;rows=8192;dtype=fp32" },
    { "a mixed-type product is unrolled, both operands read",
      "void unrolled_elementwise_kernel<BinaryFunctor<float, float, float, MulFunctor<float> >, "
      "std::array<char*, 3ul>, 4, LoadWithCast<2> >(int)",
      "aten::mul",
      "[[8192,3456],[8192,3456]]",
      "[\"float\",\"c10::BFloat16\"]",
      "[[3456,1],[3456,1]]",
      "[\"\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 55296, 1, 1 },
      { 128, 1, 1 },
      "elementwise",
      "elementwise",
      "map",
      "n=28311552;bytes_in=4:2;bytes_out=4;valu=1;sfu=0;style=unrolled" },
    { "a slice of wider rows: 512 side by side, then 2048 on",
      "void elementwise_kernel<128, 4, gpu_kernel_impl<BinaryFunctor<float, float, float, MulFunctor<float> "
      "> >(at)>(int)",
      "aten::mul",
      "[[32,1024,512],[32,1024,512]]",
      "[\"float\",\"c10::BFloat16\"]",
      "[[524288,512,1],[2097152,2048,1]]",
      "[\"\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 32768, 1, 1 },
      { 128, 1, 1 },
      "elementwise",
      "elementwise",
      "map",
      "n=16777216;bytes_in=4:2;bytes_out=4;valu=1;sfu=0;style=strided;repeat=1:1;run=0:512;pitch=0:2048" },
    { "a column repeated along the row, a row repeated down the column",
      "void elementwise_kernel<128, 2, gpu_kernel_impl_nocast<CUDAFunctor_add<float> >(at)>(int)",
      "aten::add",
      "[[64,1],[32],[]]",
      "[\"float\",\"float\",\"Scalar\"]",
      "[[1,1],[1],[]]",
      "[\"\",\"\",\"1\"]",
      NULL,
      NULL,
      NULL,
      { 8, 1, 1 },
      { 128, 1, 1 },
      "elementwise",
      "elementwise",
      "map",
      "n=64;bytes_in=4:4;bytes_out=4;valu=1;sfu=0;style=strided" },
    { "a gelu is no comparison (aten::ge): its result is as wide as its input",
      "void vectorized_elementwise_kernel<8, "
      "GeluCUDAKernelImpl(at::TensorIteratorBase&)::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul> >(int)",
      "aten::gelu",
      "[[8,1024,8192],[]]",
      "[\"c10::BFloat16\",\"\"]",
      "[[8388608,8192,1],[]]",
      "[\"\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 65536, 1, 1 },
      { 128, 1, 1 },
      "elementwise",
      "elementwise",
      "map",
      "n=67108864;bytes_in=2;bytes_out=2;valu=25;sfu=1;style=vectorized" },
    { "a comparison gives bytes",
      "void vectorized_elementwise_kernel<4, CompareGTFunctor<float>, std::array<char*, 3ul> >(int)",
      "aten::gt",
      "[[4096],[4096]]",
      "[\"float\",\"float\"]",
      "[[1],[1]]",
      "[\"\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 8, 1, 1 },
      { 128, 1, 1 },
      "elementwise",
      "elementwise",
      "map",
      "n=4096;bytes_in=4:4;bytes_out=1;valu=2;sfu=0;style=vectorized" },
    { "a cast is one when the elements lie alike",
      "void vectorized_elementwise_kernel<8, "
      "bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)",
      "aten::copy_",
      "[[8192,64,27],[8192,64,27],[]]",
      "[\"c10::BFloat16\",\"float\",\"Scalar\"]",
      "[[1728,1,64],[1728,1,64],[]]",
      "[\"\",\"\",\"False\"]",
      NULL,
      NULL,
      NULL,
      { 13824, 1, 1 },
      { 128, 1, 1 },
      "elementwise",
      "elementwise",
      "cast",
      "n=14155776;dtype_in=fp32;dtype_out=bf16;style=vectorized" },
    { "a copy across: out[b][c][r] = in[b][r][c]",
      "void elementwise_kernel<128, 2, "
      "gpu_kernel_impl_nocast<direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}>(at)>(int)",
      "aten::copy_",
      "[[16,64,27],[16,64,27],[]]",
      "[\"float\",\"float\",\"Scalar\"]",
      "[[1728,27,1],[1728,1,64],[]]",
      "[\"\",\"\",\"False\"]",
      NULL,
      NULL,
      NULL,
      { 8, 1, 1 },
      { 128, 1, 1 },
      "elementwise",
      "transpose",
      "strided_copy",
      "batch=16;rows=27;cols=64;inner=1;dtype=fp32" },
    { "concatenation of unequal widths",
      "void CatArrayBatchedCopy_alignedK_contig<OpaqueType<2u>, unsigned int, 2, 128, 1, 8>(OpaqueType<2u>*)",
      "aten::cat",
      "[[[8192,64],[8192,351]],[]]",
      "[\"TensorList\",\"Scalar\"]",
      "[[[64,1],[351,1]],[]]",
      "[\"\",\"1\"]",
      NULL,
      NULL,
      NULL,
      { 4224, 2, 1 },
      { 128, 1, 1 },
      "memory",
      "cat",
      "concat",
      "rows=8192;cols=64:351;dtype=bf16" },
    { "concatenation along the first dimension is one row",
      "void CatArrayBatchedCopy_vectorized<OpaqueType<4u>, unsigned int, 1, 128, 1, 16, 4>(char*)",
      "aten::cat",
      "[[[8192,128],[8192,128],[8192,128]],[]]",
      "[\"TensorList\",\"Scalar\"]",
      "[[],[]]",
      "[\"\",\"0\"]",
      NULL,
      NULL,
      NULL,
      { 2048, 3, 1 },
      { 128, 1, 1 },
      "memory",
      "cat",
      "concat",
      "rows=1;cols=1048576;tensors=3;dtype=fp32" },
    { "fused Adam over its tensors: 512 x 13 + 512 elements",
      "void multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4, "
      "(ADAM_MODE)0, false>, float const*>(Fused)",
      "aten::_fused_adam_",
      "[[[512,13],[512]],[[512,13],[512]],[[512,13],[512]],[[512,13],[512]]]",
      "[\"TensorList\",\"TensorList\",\"TensorList\",\"TensorList\"]",
      NULL,
      "[]",
      NULL,
      NULL,
      NULL,
      { 2, 1, 1 },
      { 512, 1, 1 },
      "optimizer",
      "optimizer",
      "multi_tensor",
      "elements=7168;reads=4:4:4:4;writes=4:4:4;tensors=2;chunks=2" },
    { "ranges are fills",
      "void elementwise_kernel_with_index<int, arange_cuda_out(c10::Scalar const&)::{lambda(long)#1}>(int)",
      "aten::arange",
      "[[],[],[],[0]]",
      "[\"Scalar\",\"Scalar\",\"Scalar\",\"long int\"]",
      NULL,
      "[\"0\",\"8192\",\"1\",\"\"]",
      NULL,
      NULL,
      NULL,
      { 128, 1, 1 },
      { 64, 1, 1 },
      "elementwise",
      "elementwise",
      "fill",
      "n=8192;dtype=int64" },
    { "a sweep inside a call without indices: 4119 tiles of 384 x 10 pairs of 8 and 4 bytes, the last half "
      "full",
      "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, false, "
      "long, int, int, int>(int*)",
      "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>",
      "[[8192,8720]]",
      "[\"float\"]",
      NULL,
      NULL,
      NULL,
      NULL,
      NULL,
      { 4119, 1, 1 },
      { 384, 1, 1 },
      "sort",
      "sort",
      "sweep",
      "n=15815040;key_bytes=8;value_bytes=4;threads=384;items=10" },
    { "a narrower workgroup has the tiles of its generation: 256 x 11 of 8-byte keys",
      "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, false, "
      "long, int, int, int>(int*)",
      "torch::autograd::CppNode<SplitLookupFunction_adagrad_Op>",
      "[[128,48]]",
      "[\"float\"]",
      NULL,
      NULL,
      NULL,
      NULL,
      NULL,
      { 2, 1, 1 },
      { 256, 1, 1 },
      "sort",
      "sort",
      "sweep",
      "n=4224;key_bytes=8;value_bytes=4;threads=256;items=11" },
    { "a scan has as many items as the operator's whole numbers that fit 525 tiles of 128 x 15: 984 x 1024",
      "void cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, int, (cub::BlockLoadAlgorithm)3, "
      "(cub::CacheLoadModifier)0, "
      "cub::MemBoundScaling<128, 15, int> >, int*, int*, cub::ScanTileState<int, true>, cub::Sum, int, "
      "int>(int*, int*)",
      "fbgemm::permute_sparse_features",
      "[[984],[984,1024],[15901872],[]]",
      "[\"int\",\"int\",\"int\",\"\"]",
      NULL,
      NULL,
      NULL,
      NULL,
      NULL,
      { 525, 1, 1 },
      { 128, 1, 1 },
      "sort",
      "sort",
      "chained",
      "n=1007616;items=15;threads=128;item_bytes=4;out_bytes=4" },
    { "keys that one workgroup holds, values of 8 bytes without a type",
      "void "
      "at_cuda_detail::cub::DeviceRadixSortSingleTileKernel<at_cuda_detail::cub::DeviceRadixSortPolicy<long, "
      "at::cuda::cub::detail::OpaqueType<8>, int>::Policy800, false, long, "
      "at::cuda::cub::detail::OpaqueType<8>, int>(long const*)",
      "aten::_index_put_impl_",
      "[[16,27,27],[],[16,351],[],[]]",
      "[\"float\",\"\",\"float\",\"Scalar\",\"Scalar\"]",
      NULL,
      NULL,
      NULL,
      NULL,
      NULL,
      { 1, 1, 1 },
      { 256, 1, 1 },
      "sort",
      "sort",
      "single_tile",
      "n=1152;key_bytes=8;value_bytes=8;bits=24" },
    { "the states of tiles: 65 x 128 words, whatever the operator's tensors",
      "void cub::DeviceScanInitKernel<cub::ScanTileState<int, true> >(cub::ScanTileState<int, true>, int)",
      "torch::autograd::CppNode<SplitLookupFunction_rowwise_adagrad_Op>",
      "[[8192,8720]]",
      "[\"float\"]",
      NULL,
      NULL,
      NULL,
      NULL,
      NULL,
      { 65, 1, 1 },
      { 128, 1, 1 },
      "sort",
      "elementwise",
      "fill",
      "n=8320;dtype=int64" },
    { "features in another order: 979 of 951 x 1024 bags, so some twice",
      "void fbgemm_gpu::permute_indices_weights_kernel<true, int, float>(int, int, int, int const*)",
      "fbgemm::permute_sparse_features",
      "[[979],[951,1024],[951000],[951000]]",
      "[\"int\",\"int\",\"int\",\"float\"]",
      NULL,
      NULL,
      NULL,
      NULL,
      NULL,
      { 31328, 1, 1 },
      { 32, 32, 1 },
      "embedding",
      "tbe",
      "permute",
      "features=979;batch=1024;n=979000;index_bytes=4;weight_bytes=4" },
    { "a range check: 122 tables of (999425 - 1) / 122 = 8192 bags of 15.8 indices, 32 lanes each",
      "void bounds_check_indices_kernel<long>(at::GenericPackedTensorAccessor<long, 1ul, "
      "at::RestrictPtrTraits, int>)",
      "fbgemm::bounds_check_indices",
      "[[122],[15781672],[999425],[],[1],[]]",
      "[\"long int\",\"long int\",\"long int\",\"Scalar\",\"long int\",\"\"]",
      NULL,
      NULL,
      NULL,
      NULL,
      NULL,
      { 124928, 1, 1 },
      { 32, 8, 1 },
      "embedding",
      "bounds_check",
      "per_thread_atomic",
      "tables=122;batch=8192;bag=16;block=256;block_x=32;rate=0" },
};

static const struct trace_operator_args *arguments(struct arena *arena, const char *dims, const char *types,
                                                   const char *strides, const char *concrete)
{
    struct trace_operator_args *args = arena_alloc(arena, sizeof *args);
    *args = (struct trace_operator_args){
        .dims = dims, .types = types, .strides = strides, .concrete = concrete
    };
    return args;
}

static void recognise_case(const struct site_case *c, struct arena *arena, struct kernel_recognition *out)
{
    static const char types_of_four[] =
        "[\"c10::BFloat16\",\"c10::BFloat16\",\"c10::BFloat16\",\"Scalar\",\"Scalar\",\"Scalar\"]";
    struct site_operator operators[2] = {
        { c->operator_name, arguments(arena, c->dims, c->types, c->strides, c->concrete) },
        { c->around, arguments(arena, c->around_dims, types_of_four, NULL, c->around_concrete) },
    };
    struct kernel_site site = { .name = c->kernel,
                                .category = TRACE_KERNEL,
                                .bytes = -1,
                                .traced_us = 1,
                                .operators = operators,
                                .operator_count = c->around == NULL ? 1 : 2,
                                .grid_share = 1 };
    memcpy(site.grid, c->grid, sizeof site.grid);
    memcpy(site.block, c->block, sizeof site.block);
    kernel_recognise(&site, arena, out);
}

Test(recognise, real_kernels_become_programs)
{
    struct arena *arena = arena_create();
    for (size_t i = 0; i < sizeof site_cases / sizeof site_cases[0]; i++) {
        const struct site_case *c = &site_cases[i];
        struct kernel_recognition got;
        recognise_case(c, arena, &got);
        char *cache = strstr(got.params, ";cache=produced");
        if (cache != NULL) {
            *cache = '\0'; /* said once, below */
        }
        cr_expect(got.how == GRAPH_RECOGNISED, "%s", c->claim);
        cr_expect(strcmp(got.category, c->category) == 0, "%s: %s", c->claim, got.category);
        cr_expect(strcmp(got.suite, c->suite) == 0 && strcmp(got.kernel, c->name) == 0, "%s: %s/%s", c->claim,
                  got.suite, got.kernel);
        cr_expect(strcmp(got.params, c->params) == 0, "%s:\n%s\nwanted\n%s", c->claim, got.params, c->params);
        cr_expect(got.bytes_read + got.bytes_written > 0, "%s", c->claim);
    }
    arena_destroy(arena);
}

/* What a sort's first kernels handle is in the launches of the sort that follows: (17 - 0.5) tiles of 384 x 10 = 63,360 pairs,
 * two sweeps of it before the next sort begins. */
Test(recognise, kernels_ahead_of_a_sort_have_its_size)
{
    static const char sweep
        [] = "void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, "
             "false>()",
   histogram[] =
        "void cub::DeviceRadixSortHistogramKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800>()";
    static const struct {
        const char *name, *params;
        double bytes_read;
    } cases[] = {
        { "void linearize_index_kernel<long>(at)", "bags=8192;n=63360;index_bytes=8", 63360 * 8 + 8192 * 8 },
        { histogram, "n=63360;key_bytes=8;passes=2", 63360 * 8 },
    };
    struct arena *arena = arena_create();
    for (size_t i = 0; i < 2; i++) {
        struct kernel_site site = { .name = cases[i].name,
                                    .category = TRACE_KERNEL,
                                    .bytes = -1,
                                    .grid_share = 1,
                                    .grid = { 8, 1, 1 },
                                    .block = { 1024, 1, 1 },
                                    .after_count = 5 - i };
        struct site_kernel next[5] = { { histogram, { 864, 1, 1 }, { 128, 1, 1 } },
                                       { sweep, { 17, 1, 1 }, { 384, 1, 1 } },
                                       { sweep, { 17, 1, 1 }, { 384, 1, 1 } },
                                       { histogram, { 864, 1, 1 }, { 128, 1, 1 } },
                                       { sweep, { 99, 1, 1 }, { 384, 1, 1 } } };
        memcpy(site.after, next + i, (5 - i) * sizeof next[0]);
        struct kernel_recognition got;
        kernel_recognise(&site, arena, &got);
        cr_expect(eq(int, got.how, GRAPH_RECOGNISED), "%s", cases[i].name);
        cr_expect(eq(str, got.params, (char *)cases[i].params));
        cr_expect(eq(dbl, got.bytes_read, cases[i].bytes_read));
    }
    arena_destroy(arena);
}

/* 2 x 8192 x 1024 x 3456 = 57,982,058,496 operations; operands of 2 bytes. */
Test(recognise, products_report_their_work)
{
    struct arena *arena = arena_create();
    struct kernel_recognition got;
    recognise_case(&site_cases[0], arena, &got);
    cr_expect(eq(dbl, got.flops, 57982058496.0));
    cr_expect(eq(dbl, got.bytes_read, (8192.0 * 3456 + 3456.0 * 1024) * 2));
    cr_expect(eq(dbl, got.bytes_written, 8192.0 * 1024 * 2));
    cr_expect(eq(str, got.dtype, "bf16"));
    arena_destroy(arena);
}

/* An unknown kernel over [100, 10] fp32 and [10] fp32: 4,040 bytes read, the largest of 4,000 written. */
Test(recognise, unknown_kernels_are_priced_by_bytes)
{
    struct arena *arena = arena_create();
    struct site_case c = { .kernel = "my_kernel",
                           .operator_name = "my::op",
                           .dims = "[[100,10],[10]]",
                           .types = "[\"float\",\"float\"]" };
    struct kernel_recognition got;
    recognise_case(&c, arena, &got);
    cr_expect(eq(int, got.how, GRAPH_BY_BYTES));
    cr_expect(eq(dbl, got.bytes_read, 4040));
    cr_expect(eq(dbl, got.bytes_written, 4000));
    cr_expect(eq(str, (char *)got.category, "other"));
    cr_expect(eq(str, got.suite, ""));
    arena_destroy(arena);
}

/* A bag's lengths move before its values: 96 x 4,096 of 4 bytes read and written, whatever the 500,000 values take. */
Test(recognise, lengths_move_alone)
{
    struct arena *arena = arena_create();
    struct site_case c = { .kernel = "void fbgemm_gpu::permute_2D_lengths_kernel<int>(int, int, int const*, int const*, int*)",
                           .operator_name = "fbgemm::permute_2D_sparse_data",
                           .dims = "[[96],[96,4096],[500000],[],[]]",
                           .types = "[\"int\",\"int\",\"int\",\"\",\"Scalar\"]" };
    struct kernel_recognition got;
    recognise_case(&c, arena, &got);
    cr_expect(eq(int, got.how, GRAPH_BY_BYTES));
    cr_expect(eq(dbl, got.bytes_read, 96 * 4096 * 4.0));
    cr_expect(eq(dbl, got.bytes_written, 96 * 4096 * 4.0));
    arena_destroy(arena);
}

/* A stride of 0 repeats: 10 elements in memory, not 1,000. */
Test(recognise, repeated_elements_count_once)
{
    struct arena *arena = arena_create();
    struct site_case c = { .kernel = "my_kernel",
                           .operator_name = "my::op",
                           .dims = "[[100,10]]",
                           .types = "[\"float\"]",
                           .strides = "[[0,1]]" };
    struct kernel_recognition got;
    recognise_case(&c, arena, &got);
    cr_expect(eq(dbl, got.bytes_read, 40));
    arena_destroy(arena);
}

Test(recognise, without_tensors_it_is_replayed)
{
    struct arena *arena = arena_create();
    struct site_case c = {
        .kernel = "my_kernel", .operator_name = "my::op", .dims = "[[],[]]", .types = "[\"Scalar\",\"\"]"
    };
    struct kernel_recognition got;
    recognise_case(&c, arena, &got);
    cr_expect(eq(int, got.how, GRAPH_REPLAYED));
    arena_destroy(arena);
}

/* A product without shapes keeps its category. */
Test(recognise, category_survives_missing_shapes)
{
    struct arena *arena = arena_create();
    struct site_case c = { .kernel = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
                           .operator_name = "aten::mm" };
    struct kernel_recognition got;
    recognise_case(&c, arena, &got);
    cr_expect(eq(int, got.how, GRAPH_REPLAYED));
    cr_expect(eq(str, (char *)got.category, "gemm"));
    arena_destroy(arena);
}

struct copy_case {
    char name[48];
    int category;
    double bytes;
    char suite[16], kernel[16], params[48];
};
ParameterizedTestParameters(recognise, copies_and_fills)
{
    static struct copy_case cases[] = {
        { "Memcpy DtoD (Device -> Device)", TRACE_MEMCPY, 4096, "memory", "copy",
          "bytes=4096;cache=produced" },
        { "Memcpy HtoD (Pinned -> Device)", TRACE_MEMCPY, 1048576, "memcpy", "h2d_pinned", "mb=1" },
        { "Memcpy HtoD (Pageable -> Device)", TRACE_MEMCPY, 524288, "memcpy", "h2d_pageable", "mb=0.5" },
        { "Memcpy DtoH (Device -> Pinned)", TRACE_MEMCPY, 1048576, "memcpy", "d2h_pinned", "mb=1" },
        { "Memset (Device)", TRACE_MEMSET, 4, "memory", "set", "bytes=4;cache=produced" },
    };
    return cr_make_param_array(struct copy_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct copy_case *c, recognise, copies_and_fills)
{
    struct arena *arena = arena_create();
    struct kernel_site site = {
        .name = c->name, .category = (enum trace_category)c->category, .bytes = c->bytes, .grid_share = 1
    };
    struct kernel_recognition got;
    kernel_recognise(&site, arena, &got);
    cr_expect(eq(int, got.how, GRAPH_RECOGNISED), "%s", c->name);
    cr_expect(eq(str, got.suite, c->suite));
    cr_expect(eq(str, got.kernel, c->kernel));
    cr_expect(eq(str, got.params, c->params));
    cr_expect(eq(str, (char *)got.category, "memory"));
    arena_destroy(arena);
}

/* ---- the fixtures ----------------------------------------------------------------------------------------------- */

/* Round figures of the recording device, enough to launch on: 132 units of 32 lanes, 227 KiB of shared memory. */
static const struct kernel_machine machine = {
    .units = 132,
    .lanes = 32,
    .hbm_bytes = 141000000000,
    .lds_bytes_per_workgroup_max = 232448,
    .core_mhz = 1980,
    .matrix_flops_per_cycle = { [WAVE_FP64] = 256,
                                [WAVE_FP32] = 256,
                                [WAVE_TF32] = 2048,
                                [WAVE_BF16] = 4096,
                                [WAVE_FP16] = 4096,
                                [WAVE_FP8] = 8192 },
};

static void expect_plan(const struct graph_node *node)
{
    struct sim_error error = { 0 };
    struct kernel_params *params = NULL;
    struct kernel_plan *plan = NULL;
    cr_assert(kernel_params_parse(node->params, &params, &error) == SIM_OK, "%s", error.text);
    cr_expect(kernel_plan_create(node->suite, node->kernel, params, &machine, &plan, &error) == SIM_OK,
              "%s/%s %s: %s", node->suite, node->kernel, node->params, error.text);
    kernel_plan_destroy(plan);
    kernel_params_destroy(params);
}

/* `least`: recognised share of kernel time, measured and rounded down. */
struct share_case {
    char file[40];
    double least;
};
ParameterizedTestParameters(recognise, share_of_the_fixtures)
{
    static struct share_case cases[] = {
        { "dlrm_dcnv2_w1_r0", 0.9999 },
        { "dlrm_dcnv2_B8192_w2_r0", 0.9999 },
        { "dlrm_dcnv2_B8192_w2_r1", 0.9999 },
        { "dlrm_small_w1_r0", 0.997 },
    };
    return cr_make_param_array(struct share_case, cases, sizeof cases / sizeof cases[0]);
}
ParameterizedTest(struct share_case *c, recognise, share_of_the_fixtures)
{
    char path[256];
    snprintf(path, sizeof path, FIXTURE("%s.kineto.json.gz"), c->file);
    struct graph *graph = read_one(path);
    double recognised_us = 0, all_us = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        if (node->kind != GRAPH_KERNEL) {
            continue;
        }
        all_us += node->traced_us;
        if (node->recognition == GRAPH_RECOGNISED) {
            recognised_us += node->traced_us;
            cr_assert(kernel_is_registered(node->suite, node->kernel), "%s/%s", node->suite, node->kernel);
            expect_plan(node);
        } else {
            cr_expect(node->bytes_read + node->bytes_written > 0, "%s", node->name);
        }
    }
    cr_expect(ge(dbl, recognised_us / all_us, c->least), "%s", c->file);
    graph_destroy(graph);
}

/* Every index came from somewhere unknown: the graph says so once, with how many kernels it concerns. */
Test(recognise, assumptions_are_noted_once)
{
    struct graph *graph = read_one(FIXTURE("dlrm_dcnv2_w1_r0.kineto.json.gz"));
    size_t notes = 0;
    for (size_t i = 0; i < graph->note_count; i++) {
        notes += strstr(graph->notes[i], "indices uniform") != NULL;
    }
    cr_expect(eq(sz, notes, 1));
    cr_expect(has_note(graph, "assumed for 78 kernels")); /* 26 tables: lookup, gather, add */
    graph_destroy(graph);
}
