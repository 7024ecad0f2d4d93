// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011), as in `src/fill/philox.rs`.
#pragma once
#include "formats.h"

struct Words {
    u32 w[4];
};

__device__ inline Words philox(u64 block, u32 stream, u32 purpose, u32 key0, u32 key1) {
    u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = stream, c3 = purpose;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const u64 p0 = (u64)0xd2511f53u * c0;
        const u64 p1 = (u64)0xcd9e8d57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ key0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ key1;
        c3 = (u32)p0;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return {{c0, c1, c2, c3}};
}
