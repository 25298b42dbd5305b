//# g++ -O2 -o prog 3_main.cc -L. -lmiddle -lthrower -Wl,-rpath,$ORIGIN -pthread
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <thread>
#include <typeinfo>
int again(int n);
struct Base { virtual ~Base() {} virtual int kind(); };
struct Derived : Base { int kind() override; };
Base *make(bool derived);
static void one(int n) {
    try { std::printf("value %d\n", again(n)); }
    catch (const std::exception &e) { std::printf("caught %s (%s)\n", e.what(), typeid(e).name()); }
    catch (int i) { std::printf("caught int %d\n", i); }
}
int main() {
    for (int n = 0; n < 9; n++) one(n);
    std::exception_ptr kept;
    std::thread t([&] { try { again(5); } catch (...) { kept = std::current_exception(); } });
    t.join();
    try { std::rethrow_exception(kept); } catch (const std::runtime_error &e) { std::cout << e.what() << std::endl; }
    for (bool d : {false, true}) {
        Base *b = make(d);
        std::printf("%d %d %s\n", b->kind(), dynamic_cast<Derived *>(b) != nullptr, typeid(*b).name());
        delete b;
    }
    std::set_terminate([] { std::puts("terminated"); std::fflush(stdout); _Exit(9); });
    again(7);
}
