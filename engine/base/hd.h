/* engine/base/hd.h - for headers that CUDA sources include as well.
 *
 * HD marks functions that are compiled from one text for the host and for a GPU. Functions of C sources are declared
 * between C_BEGIN and C_END. */
#ifndef ENGINE_BASE_HD_H
#define ENGINE_BASE_HD_H
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif

#ifdef __cplusplus
#define C_BEGIN extern "C" {
#define C_END }
#else
#define C_BEGIN
#define C_END
#endif
#endif
