/* The kinds of variables that globals.c and its library have, so that names can be made of them: KIND_TYPE. */
#define EACH_TYPE(X) \
	X(signed char, i8, -101) X(unsigned char, u8, 201) X(short, i16, -30001) X(unsigned short, u16, 60001) \
	X(int, i32, -2000000001) X(unsigned int, u32, 4000000001u) X(long, i64, -9000000000000000001l) \
	X(unsigned long, u64, 18000000000000000001ul) X(char, c, 'x') X(_Bool, b, 1)

enum shade { RED, GREEN = 5, BLUE = -3 };
enum wide { LOW = 1, HIGH = 0x100000000l };

struct bits {
	unsigned int one : 1, three : 3;
	int low : 5;
	unsigned long wide : 40;
	_Bool flag : 1;
	enum shade shade : 4;
	long last : 17;
};

struct __attribute__((packed)) packed {
	char first;
	int odd;
	unsigned int across : 30;
	unsigned int bits : 7;
	long end;
};

union number {
	unsigned int whole;
	unsigned char bytes[4];
	struct {
		unsigned short low, high;
	};
};

struct node {
	struct node *next;
	const char *name;
	char text[12];
	union number number;
	enum shade shade;
	struct {
		int x, y;
		struct {
			short deep;
		} inner;
	} point;
	union {
		long either;
		char or[8];
	};
	double ratio;
};

typedef struct node node_t;
typedef int (*action_t)(int);
