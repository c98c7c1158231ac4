/* Matrix products: BLAS where there is one, else hop's own loops. */
#ifndef HOP_BLAS_H
#define HOP_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* CBLAS as OpenBLAS exports it, with 32-bit integers. */
enum { BLAS_ROW_MAJOR = 101, BLAS_AS_IT_IS = 111, BLAS_TRANSPOSED = 112 };
struct blas {
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                  const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                  const double *b, int ldb, double beta, double *c, int ldc);
    void (*sgemv)(int order, int t, int m, int n, float alpha, const float *a, int lda, const float *x,
                  int step, float beta, float *y, int y_step);
    void (*dgemv)(int order, int t, int m, int n, double alpha, const double *a, int lda, const double *x,
                  int step, double beta, double *y, int y_step);
};
/* OpenBLAS, loaded by the first call; NULL when there is none. */
const struct blas *blas_library(void);
/* What multiplies, and by which of its kernels: "OpenBLAS 0.3.21, kernel Zen". Loads it. */
const char *blas_description(void);
/* Does a kernel of OpenBLAS, by its name, use the widest vectors that this processor has? */
bool blas_kernel_fits(const char *kernel);

struct hop_rt;
struct hop_rt_gemm;
/* hop_rt.gemm and .pack */
void blas_gemm(struct hop_rt *rt, const struct hop_rt_gemm *g);
void blas_pack(struct hop_rt *rt, const struct hop_rt_gemm *g);

#endif
