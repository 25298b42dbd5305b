/*
 * library: uses much of the C++ library and says what came of it. What it prints is the same every time, whatever
 * watches it.
 *
 *     library [ROUNDS]
 */
#include <algorithm>
#include <any>
#include <array>
#include <atomic>
#include <bitset>
#include <charconv>
#include <chrono>
#include <cmath>
#include <complex>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <forward_list>
#include <fstream>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <list>
#include <locale>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <typeinfo>
#include <unistd.h>
#include <unordered_map>
#include <valarray>
#include <variant>
#include <vector>

using namespace std;

static void containers(int round)
{
	map<string, vector<int>> words;
	unordered_map<int, string> names;
	set<double> numbers;
	list<int> chain;
	deque<int> queue;
	forward_list<int> single;
	mt19937 random(42 + round);
	for (int i = 0; i < 500; i++) {
		int n = random() % 1000;
		words["key" + to_string(n % 37)].push_back(n);
		names[n] = to_string(i);
		numbers.insert(sqrt(n));
		chain.push_front(n);
		queue.push_back(-n);
		single.push_front(n / 2);
	}
	chain.sort();
	chain.unique();
	single.sort();
	sort(queue.begin(), queue.end());
	size_t longest = 0;
	for (auto &[word, all] : words)
		longest = max(longest, all.size() * word.size());
	cout << "containers " << words.size() << ' ' << names.size() << ' ' << numbers.size() << ' ' << chain.size() << ' '
	     << longest << ' ' << queue.front() << ' ' << single.front() << '\n';
}

static void text(int round)
{
	ostringstream out;
	out << hex << setw(12) << setfill('*') << 48879 + round << dec << ' ' << scientific << setprecision(7) << 3.14159265 * round
	    << ' ' << boolalpha << (round % 2 == 0) << ' ' << put_time(gmtime(array<time_t, 1>{ 86400L * round }.data()), "%Y-%m-%d");
	istringstream in("12 0x1f 3.5e2 word " + to_string(round));
	int a, b, last;
	double c;
	string word;
	in >> a >> hex >> b >> dec >> c >> word >> last;
	regex pattern("([a-z]+)-(\\d+)(?:\\.(\\d+))?");
	string text = "alpha-12.5 beta-7 gamma-" + to_string(round) + ".0";
	string replaced = regex_replace(text, pattern, "<$2:$1>");
	long matches = distance(sregex_iterator(text.begin(), text.end(), pattern), sregex_iterator());
	char digits[32];
	auto end = to_chars(digits, digits + sizeof digits, 2.5 * round).ptr;
	locale classic = locale::classic();
	cout << "text " << out.str() << ' ' << a + b + c << word << last << ' ' << replaced << ' ' << matches << ' '
	     << string(digits, end) << use_facet<ctype<char>>(classic).toupper('x') << '\n';
}

struct Base {
	virtual ~Base() = default;
	virtual string name() const { return "base"; }
};
struct Left : virtual Base {
	string name() const override { return "left"; }
};
struct Right : virtual Base {};
struct Both : Left, Right {};

struct Counted {
	static inline int alive = 0;
	Counted() { alive++; }
	~Counted() { alive--; }
};

static int depth(int n)
{
	Counted counted;
	if (n == 0)
		throw out_of_range("bottom");
	try {
		return depth(n - 1) + 1;
	} catch (logic_error &error) {
		if (n % 3 == 0)
			throw_with_nested(runtime_error("level " + to_string(n)));
		throw;
	} catch (...) {
		throw;
	}
}

static void exceptions(int round)
{
	string told;
	function<void(const exception &)> tell = [&](const exception &error) {
		told += error.what();
		try {
			rethrow_if_nested(error);
		} catch (const exception &inner) {
			told += ", ";
			tell(inner);
		}
	};
	try {
		depth(10 + round % 7);
	} catch (const exception &error) {
		tell(error);
	}
	int caught = 0;
	try {
		vector<int>().at(3);
	} catch (out_of_range &) {
		caught++;
	}
	try {
		any three = 3;
		(void)any_cast<double>(three);
	} catch (bad_any_cast &) {
		caught++;
	}
	try {
		(void)stoi("none");
	} catch (invalid_argument &) {
		caught++;
	}
	try {
		Base *base = new Base;
		unique_ptr<Base> owner(base);
		(void)dynamic_cast<Both &>(*base);
	} catch (bad_cast &) {
		caught++;
	}
	try {
		filesystem::directory_iterator("/no/such/place");
	} catch (filesystem::filesystem_error &error) {
		caught += error.code() == errc::no_such_file_or_directory;
	}
	Both both;
	Base &base = both;
	cout << "exceptions " << told << ' ' << caught << ' ' << Counted::alive << ' ' << base.name() << ' '
	     << (dynamic_cast<Right *>(&base) != nullptr) << '\n';
}

static void threads(int round)
{
	mutex lock;
	condition_variable changed;
	shared_mutex readers;
	deque<int> queue;
	long sum = 0;
	atomic<int> seen{ 0 };
	constexpr int ITEMS = 300;
	auto work = [&](int) {
		for (;;) {
			unique_lock held(lock);
			changed.wait(held, [&] { return !queue.empty(); });
			int item = queue.front();
			queue.pop_front();
			if (item < 0)
				return;
			held.unlock();
			shared_lock shared(readers);
			seen += item % 2;
			shared.unlock();
			lock_guard again(lock);
			sum += item;
		}
	};
	vector<thread> all;
	for (int i = 0; i < 4; i++)
		all.emplace_back(work, i);
	for (int i = 0; i < ITEMS + 4; i++) {
		lock_guard held(lock);
		queue.push_back(i < ITEMS ? i + round : -1);
		changed.notify_one();
	}
	for (auto &one : all)
		one.join();
	auto later = async(launch::async, [] {
		this_thread::sleep_for(chrono::milliseconds(1));
		throw length_error("from a thread");
		return 1;
	});
	string told;
	try {
		later.get();
	} catch (length_error &error) {
		told = error.what();
	}
	once_flag once;
	int times = 0;
	for (int i = 0; i < 3; i++)
		call_once(once, [&] { times++; });
	cout << "threads " << sum << ' ' << seen << ' ' << told << ' ' << times << '\n';
}

static void numbers(int round)
{
	valarray<double> wave(256);
	for (size_t i = 0; i < wave.size(); i++)
		wave[i] = sin(0.1 * static_cast<double>(i) * (round + 1));
	complex<double> turn = polar(1.0, 0.25);
	complex<double> power = pow(turn, 10 + round);
	vector<long> values(1000);
	iota(values.begin(), values.end(), round);
	nth_element(values.begin(), values.begin() + 500, values.end(), greater<>());
	discrete_distribution<int> choice({ 1, 2, 3 });
	minstd_rand random(7);
	array<int, 3> drawn{};
	for (int i = 0; i < 600; i++)
		drawn[choice(random)]++;
	bitset<128> bits(string(100, '1'));
	cout << "numbers " << fixed << setprecision(9) << wave.sum() << ' ' << power.real() << ' ' << values[500] << ' ' << drawn[2]
	     << ' ' << bits.count() << ' ' << lgamma(5.5) << ' ' << gcd(84, 36 + 12 * round) << '\n';
	cout.unsetf(ios::floatfield);
}

static void files(int round)
{
	namespace fs = filesystem;
	fs::path folder = fs::temp_directory_path() / ("library-" + to_string(getpid()));
	fs::create_directories(folder / "a" / "b");
	for (int i = 0; i < 5; i++)
		ofstream(folder / ("file" + to_string(i))) << string(100 * i, 'x') << endl;
	fs::rename(folder / "file0", folder / "a" / "moved");
	fs::copy_file(folder / "file4", folder / "a" / "b" / "copy");
	uintmax_t bytes = 0;
	set<string> names;
	for (auto &entry : fs::recursive_directory_iterator(folder)) {
		names.insert(entry.path().filename());
		bytes += entry.is_regular_file() ? entry.file_size() : 0;
	}
	ifstream back(folder / "file3");
	string line;
	getline(back, line);
	uintmax_t removed = fs::remove_all(folder);
	cout << "files " << names.size() << ' ' << bytes << ' ' << line.size() + round << ' ' << removed << '\n';
}

static void memory(int round)
{
	array<byte, 4096> room;
	pmr::monotonic_buffer_resource arena(room.data(), room.size());
	pmr::vector<pmr::string> strings(&arena);
	for (int i = 0; i < 50; i++)
		strings.emplace_back("a string that is too long to be kept in place, number " + to_string(i + round));
	auto shared = make_shared<vector<int>>(100, round);
	weak_ptr<vector<int>> weak = shared;
	variant<int, string, vector<int>> value = *shared;
	int size = visit([](auto &v) { return static_cast<int>(sizeof v); }, value) > 0;
	shared.reset();
	optional<string> maybe = weak.expired() ? make_optional<string>("gone") : nullopt;
	auto all = make_tuple(strings.size(), maybe.value_or("there"), size);
	cout << "memory " << get<0>(all) << ' ' << get<1>(all) << ' ' << get<2>(all) << ' ' << strings.back().size() << endl;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 3;
	for (int round = 0; round < rounds; round++) {
		containers(round);
		text(round);
		exceptions(round);
		threads(round);
		numbers(round);
		files(round);
		memory(round);
	}
}
