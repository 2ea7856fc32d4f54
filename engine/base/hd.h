/* engine/base/hd.h - HD marks functions that are compiled from one text for the host and for a GPU. */
#ifndef ENGINE_BASE_HD_H
#define ENGINE_BASE_HD_H
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif
#endif
