// The comparison for pairs of 8-bit formats: dense tensors, aligned to 16 bytes. Names as in verify.hip.
#include <hip/hip_runtime.h>
#include "verify_few.h"

VERIFY(f8e4m3_f8e4m3, F8E4M3, F8E4M3)
VERIFY(f8e5m2_f8e5m2, F8E5M2, F8E5M2)
VERIFY(f8e4m3fnuz_f8e4m3fnuz, F8E4M3FNUZ, F8E4M3FNUZ)
VERIFY(f8e5m2fnuz_f8e5m2fnuz, F8E5M2FNUZ, F8E5M2FNUZ)
VERIFY(i8_i8, I8, I8)
VERIFY(u8_u8, U8, U8)
