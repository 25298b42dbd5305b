// Templates, lambdas, namespaces and members, inlined and not.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shop {
template <typename Key, typename Value> class Ledger {
  public:
    __attribute__((noinline)) void add(const Key &key, Value value) { entries_[key] += value; }
    template <typename F> __attribute__((noinline)) Value fold(F step) const {
        Value total{};
        for (const auto &[key, value] : entries_) total = step(total, key, value);
        return total;
    }

  private:
    std::map<Key, Value> entries_;
};

struct Visitor {
    virtual ~Visitor() = default;
    virtual int visit(int depth, const std::vector<std::string> &names) = 0;
};

namespace {
struct Deep final : Visitor {
    int visit(int depth, const std::vector<std::string> &names) override {
        if (depth == 0) return static_cast<int>(names.size());
        return visit(depth - 1, names) + 1;
    }
};
} // namespace
} // namespace shop

int main(int argc, char **argv) {
    shop::Ledger<std::string, long> ledger;
    std::vector<std::string> names(argv, argv + argc);
    for (int i = 0; i < 100; i++) names.push_back(std::to_string(i * 7919 % 101));
    std::sort(names.begin(), names.end(), [](const auto &a, const auto &b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
    for (const auto &name : names) ledger.add(name, static_cast<long>(name.size()));
    long total = ledger.fold([argc](long sum, const std::string &key, long value) {
        return sum + value * argc + static_cast<long>(key.size());
    });
    std::unique_ptr<shop::Visitor> visitor = std::make_unique<shop::Deep>();
    std::printf("%ld %d\n", total, visitor->visit(argc, names));
    return 0;
}
