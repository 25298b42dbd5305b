//# g++ -O2 -fPIC -shared -o libthrower.so 1_thrower.cc
#include <stdexcept>
#include <string>
struct Odd : std::runtime_error {
    int number;
    Odd(int n) : std::runtime_error("odd " + std::to_string(n)), number(n) {}
    ~Odd() override;
};
Odd::~Odd() {}
struct Base { virtual ~Base() {} virtual int kind() { return 1; } };
struct Derived : Base { int kind() override { return 2; } };
Base *make(bool derived) { return derived ? new Derived : new Base; }
void check(int n) { if (n & 1) throw Odd(n); if (n > 6) throw n; }
