# Operators on integers of every size. One script a paragraph. `P:` stands for `pid$target:parity:`.

P:narrow:entry { trace((int8_t)arg0); }

P:narrow:entry { trace((uint8_t)arg0); }

P:narrow:entry { trace((int16_t)arg2); }

P:narrow:entry { trace((uint16_t)arg2); }

P:narrow:entry { trace((int32_t)arg4); }

P:narrow:entry { trace((uint32_t)arg4); }

P:wide:entry { trace((int64_t)arg0); trace((uint64_t)arg0); }

P:narrow:entry { trace((int8_t)arg0 + (int8_t)arg0); }

P:narrow:entry { trace((uint8_t)arg1 + (uint8_t)255); }

P:narrow:entry { trace((int16_t)arg2 + (uint8_t)arg1); }

P:narrow:entry { trace((uint16_t)arg3 - (int16_t)1); }

P:narrow:entry { trace((int32_t)arg4 + 1); }

P:narrow:entry { trace((uint32_t)arg5 + 1); }

P:narrow:entry { trace((uint32_t)arg5 - (int32_t)arg4 - 1); }

P:wide:entry { trace(arg0 + 1); trace(arg0 - 1); }

P:wide:entry { trace((uint64_t)arg1 + 1ULL); }

P:narrow:entry { trace((int8_t)arg0 * (int8_t)arg0); }

P:narrow:entry { trace((uint16_t)arg3 * (uint16_t)arg3); }

P:narrow:entry { trace((int32_t)arg4 * 3); }

P:narrow:entry { trace((uint32_t)arg5 * 0x10001u); }

P:wide:entry { trace(arg0 * arg0); }

P:wide:entry { trace((uint64_t)arg1 * 3); }

P:narrow:entry { trace((int8_t)arg0 / 7); }

P:narrow:entry { trace((uint8_t)arg1 / 7); }

P:narrow:entry { trace((int32_t)arg4 / -3); }

P:narrow:entry { trace((uint32_t)arg5 / 3); }

P:wide:entry { trace(arg0 / 10); trace(arg0 / -10); }

P:wide:entry { trace((uint64_t)arg1 / 10); }

P:wide:entry { trace((uint64_t)arg1 / (uint64_t)-1); }

P:wide:entry { trace(-7 / (arg0 | 1)); }

P:narrow:entry { trace((int8_t)arg0 % 7); }

P:narrow:entry { trace((int32_t)arg4 % -7); }

P:narrow:entry { trace((uint32_t)arg5 % 1000); }

P:wide:entry { trace(arg0 % 1000); }

P:wide:entry { trace((uint64_t)arg1 % 1000); }

P:wide:entry { trace(1000000007 % (arg0 | 1)); }

P:wide:entry { trace(arg0 & 0xff); trace(arg0 | 0x100); trace(arg0 ^ 0x5555); }

P:narrow:entry { trace((uint8_t)arg1 & (int8_t)arg0); }

P:narrow:entry { trace((uint16_t)arg3 ^ (int16_t)arg2); }

P:narrow:entry { trace(~(int8_t)arg0); trace(~(uint8_t)arg1); }

P:narrow:entry { trace(~(uint16_t)arg3); trace(~(uint32_t)arg5); }

P:wide:entry { trace(~arg0); }

P:narrow:entry { trace(-(int8_t)arg0); trace(-(uint16_t)arg3); }

P:narrow:entry { trace(-(int32_t)arg4); trace(-(uint32_t)arg5); }

P:wide:entry { trace(-arg0); trace(+arg0); }

P:wide:entry { trace(!arg0); trace(!!arg0); }

P:narrow:entry { trace((int8_t)arg0 << 3); }

P:narrow:entry { trace((uint16_t)arg3 << 16); }

P:narrow:entry { trace((int32_t)arg4 << 4); }

P:wide:entry { trace(1 << arg3); }

P:wide:entry { trace(1ULL << arg3); }

P:wide:entry { trace(arg0 << 60); }

P:narrow:entry { trace((int8_t)arg0 >> 2); }

P:narrow:entry { trace((uint8_t)arg1 >> 2); }

P:narrow:entry { trace((int32_t)arg4 >> 5); }

P:narrow:entry { trace((uint32_t)arg5 >> 5); }

P:wide:entry { trace(arg0 >> arg3); }

P:wide:entry { trace((uint64_t)arg1 >> arg3); }

P:wide:entry { trace(arg0 >> 63); trace((uint64_t)arg1 >> 63); }

P:narrow:entry { trace((int8_t)arg0 < (int8_t)arg2); }

P:narrow:entry { trace((uint8_t)arg1 < (int8_t)arg0); }

P:narrow:entry { trace((int32_t)arg4 < (uint32_t)arg5); trace((int32_t)arg4 < 1000u); }

P:narrow:entry { trace((int16_t)arg2 <= -1); trace((int16_t)arg2 >= 32767); }

P:wide:entry { trace(arg0 > 100); trace((uint64_t)arg1 > 100); }

P:wide:entry { trace(arg0 == -1); trace((uint64_t)arg1 == -1); trace(arg0 != arg1); }

P:narrow:entry /(int8_t)arg0 < 0/ { @ = count(); }

P:narrow:entry /(uint8_t)arg1 >= 128/ { @ = count(); }

P:wide:entry /arg0 > 0 && arg3 > 5/ { trace(arg3); }

P:wide:entry /arg0 < 0 || arg3 == 3/ { trace(arg3); }

P:wide:entry /arg0 < 0 ^^ arg3 > 10/ { trace(arg3); }

P:wide:entry /!(arg0 & 1)/ { trace(arg0); }

P:wide:entry { trace(arg0 > 0 ? arg0 : -arg0); }

P:wide:entry { trace(arg3 < 5 ? 1 : arg3 < 10 ? 2 : 3); }

P:wide:entry { trace((arg0, arg3)); }

P:wide:entry { trace(arg0 + arg3 * 2 - (arg3 << 1) & 0xffff | 1); }

P:wide:entry { trace((arg3 + 1) * (arg3 - 1) == arg3 * arg3 - 1); }

P:wide:entry { this->x = arg3; this->x += 5; this->x -= 2; this->x *= 3; trace(this->x); }

P:wide:entry { this->x = arg0; this->x /= 3; trace(this->x); this->x %= 7; trace(this->x); }

P:wide:entry { this->x = arg0; this->x &= 0xffff; this->x |= 0x10000; this->x ^= 0xf0f; trace(this->x); }

P:wide:entry { this->x = arg0; this->x <<= 4; trace(this->x); this->x >>= 8; trace(this->x); }

P:wide:entry { this->x = arg3; trace(this->x++); trace(++this->x); trace(this->x--); trace(--this->x); }

int8_t small; P:wide:entry { small = arg0; trace(small); small++; trace(small); }

uint8_t small; P:wide:entry { small = arg0; small--; trace(small); }

int16_t medium; P:wide:entry { medium = arg0; medium *= 2; trace(medium); }

uint16_t medium; P:wide:entry { medium = arg0; medium <<= 1; trace(medium); }

int32_t large; P:wide:entry { large = arg0; large += 0x7fffffff; trace(large); }

uint32_t large; P:wide:entry { large = arg0; large = -large; trace(large); }

P:narrow:entry { trace((int64_t)(int8_t)arg0); trace((uint64_t)(int8_t)arg0); trace((uint64_t)(uint8_t)arg0); }

P:wide:entry { trace((int8_t)arg0 + (int16_t)arg0 + (int32_t)arg0); }

P:wide:entry { trace((uint16_t)(arg0 >> 8) | (uint8_t)arg0); }

P:wide:entry { trace((int)(char)arg0 == (int)arg0); trace((short)arg0 == arg0); }

P:wide:entry { trace(sizeof(arg0)); trace(sizeof(int8_t)); trace(sizeof((short)arg0)); trace(sizeof(uint64_t)); }

P:wide:entry { trace('a' + arg3); trace(0x7f); trace(017); }

enum size { SMALL = 3, BIG = 300 }; P:wide:entry /arg0 > SMALL/ { trace(arg0 > BIG ? BIG : SMALL); }

inline int64_t LIMIT = 100; P:wide:entry /arg0 >= LIMIT/ { trace(arg0 - LIMIT); }

inline int64_t twice[int64_t x] = x * 2; P:wide:entry { trace(twice[arg3]); trace(twice[twice[arg3]]); }

P:wide:entry { trace(htons((uint16_t)arg3)); trace(htonl((uint32_t)arg3)); trace(htonll(arg3)); }

P:wide:entry { trace(ntohs(htons((uint16_t)arg0))); trace(ntohll(arg0)); }
