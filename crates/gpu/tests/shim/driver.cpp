// A driver without a card: libcuda.so.1 as far as the crate uses it. Kernels run on the processor, streams are threads, so that what
// is not waited for is not there. What goes wrong is told by a file beside the library, `faults`, of lines NAME VALUE:
//
//   version 11000       the driver's number            init 100           what cuInit returns
//   cards 0             how many there are             ptx 222            what cuModuleLoadDataEx returns
//   memory 8000000      bytes that the card has        free 4000000       bytes of them that others have left
//   error 214           what streams return            hang 1             streams never end
//   wrong 1             kernels do nothing         meet 3             kernels wait until so many streams work
//   after 20            the last four begin behind this launch
#include "kernels.h"

#include <dlfcn.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string>

typedef int Result;

static std::mutex memory_lock;
static std::map<void *, size_t> allocated;
static size_t used = 0;
static std::atomic<long> launches(0);
static std::atomic<int> busy_streams(0), busiest(0), wiped(0);

static long fault(const char *name, long otherwise) {
    static const std::map<std::string, long> faults = [] {
        std::map<std::string, long> read;
        Dl_info info;
        dladdr((void *)find_kernel, &info);
        std::string file = info.dli_fname;
        file = file.substr(0, file.rfind('/') + 1) + "faults";
        if (FILE *lines = fopen(file.c_str(), "r")) {
            char name[32];
            long value;
            while (fscanf(lines, "%31s %ld", name, &value) == 2) read[name] = value;
            fclose(lines);
        }
        return read;
    }();
    const auto found = faults.find(name);
    return found == faults.end() ? otherwise : found->second;
}

static bool failing() { return launches > fault("after", 0); }

struct Stream {
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool running = false, ended = false;
    std::thread thread;

    Stream() : thread([this] { run(); }) {}

    void run() {
        std::unique_lock<std::mutex> guard(lock);
        for (;;) {
            changed.wait(guard, [this] { return ended || !work.empty(); });
            if (work.empty()) return;
            auto next = std::move(work.front());
            work.pop_front();
            if (!running) {
                running = true;
                int now = ++busy_streams, most = busiest;
                while (now > most && !busiest.compare_exchange_weak(most, now)) {
                }
            }
            guard.unlock();
            next();
            guard.lock();
            if (work.empty()) {
                running = false;
                busy_streams--;
            }
        }
    }

    void put(std::function<void()> next) {
        const std::lock_guard<std::mutex> guard(lock);
        work.push_back(std::move(next));
        changed.notify_all();
    }

    bool idle() {
        const std::lock_guard<std::mutex> guard(lock);
        return work.empty() && !running;
    }
};

#define EXPORT extern "C" __attribute__((visibility("default")))

// How many streams worked at a time at most, and how many fills with zero there were: for tests.
EXPORT int fake_busiest() { return busiest; }
EXPORT int fake_wiped() { return wiped; }
EXPORT size_t fake_used() { return used; }

EXPORT Result cuInit(unsigned) { return (Result)fault("init", 0); }
EXPORT Result cuDriverGetVersion(int *version) { return *version = (int)fault("version", 12080), 0; }
EXPORT Result cuGetErrorString(Result, const char **text) { return *text = "told to fail", 0; }
EXPORT Result cuDeviceGetCount(int *count) { return *count = (int)fault("cards", 1), 0; }
EXPORT Result cuDeviceGet(int *device, int) { return *device = 0, 0; }
EXPORT Result cuDeviceGetName(char *name, int length, int) { return snprintf(name, (size_t)length, "No card, but its shim"), 0; }
EXPORT Result cuDeviceGetAttribute(int *value, int attribute, int) {
    // Clock in kHz, multiprocessors, clock of the memory, its width, capability.
    const std::map<int, int> values = {{13, 1000000}, {16, 2}, {36, 1000000}, {37, 256}, {75, 7}, {76, 0}};
    return *value = values.at(attribute), 0;
}
EXPORT Result cuDevicePrimaryCtxRetain(void **context, int) { return *context = &used, 0; }
EXPORT Result cuDevicePrimaryCtxRelease_v2(int) { return 0; }
EXPORT Result cuCtxSetCurrent(void *) { return 0; }

EXPORT Result cuMemGetInfo_v2(size_t *free, size_t *total) {
    *total = (size_t)fault("memory", 1L << 30);
    *free = (size_t)fault("free", (long)*total);
    return 0;
}

static Result allocate(void **memory, size_t length) {
    const std::lock_guard<std::mutex> guard(memory_lock);
    if (used + length > (size_t)fault("memory", 1L << 30)) return 2;
    *memory = aligned_alloc(256, (length + 255) / 256 * 256);
    // Nobody should count on zeros.
    memset(*memory, 0xa5, length);
    allocated[*memory] = length;
    used += length;
    return 0;
}

static Result release(void *memory) {
    const std::lock_guard<std::mutex> guard(memory_lock);
    const auto found = allocated.find(memory);
    if (found == allocated.end()) return 1;
    used -= found->second;
    allocated.erase(found);
    free(memory);
    return 0;
}

EXPORT Result cuMemAlloc_v2(u64 *address, size_t length) {
    void *memory = nullptr;
    const Result result = allocate(&memory, length);
    *address = (u64)memory;
    return result;
}
EXPORT Result cuMemFree_v2(u64 address) { return release((void *)address); }
EXPORT Result cuMemHostAlloc(void **memory, size_t length, unsigned) { return allocate(memory, length); }
EXPORT Result cuMemFreeHost(void *memory) { return release(memory); }

EXPORT Result cuModuleLoadDataEx(void **module, const void *text, unsigned, int *, void **) {
    *module = (void *)text;
    return (Result)fault("ptx", strstr((const char *)text, ".version") ? 0 : 218);
}
EXPORT Result cuModuleGetFunction(void **function, void *, const char *name) {
    *function = (void *)find_kernel(name);
    return *function ? 0 : 500;
}

EXPORT Result cuStreamCreate(void **stream, unsigned) { return *stream = new Stream, 0; }
EXPORT Result cuStreamDestroy_v2(void *stream) {
    Stream *ended = (Stream *)stream;
    {
        const std::lock_guard<std::mutex> guard(ended->lock);
        ended->ended = true;
        ended->changed.notify_all();
    }
    ended->thread.join();
    delete ended;
    return 0;
}
EXPORT Result cuStreamQuery(void *stream) {
    if (failing() && fault("hang", 0)) return 600;
    if (!((Stream *)stream)->idle()) return 600;
    return failing() ? (Result)fault("error", 0) : 0;
}

EXPORT Result cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t length, void *stream) {
    ((Stream *)stream)->put([=] { memcpy((void *)to, from, length); });
    return 0;
}
EXPORT Result cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t length, void *stream) {
    ((Stream *)stream)->put([=] { memcpy(to, (void *)from, length); });
    return 0;
}
EXPORT Result cuMemsetD8Async(u64 address, u8 byte, size_t length, void *stream) {
    wiped += byte == 0;
    ((Stream *)stream)->put([=] { memset((void *)address, byte, length); });
    return 0;
}

EXPORT Result cuLaunchKernel(void *function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                             void *stream, void **arguments, void **) {
    launches++;
    if (!blocks || threads > 1024) return 1;
    if (failing() && fault("wrong", 0)) return 0;
    const auto kernel = ((const NamedKernel *)function)->bind(arguments);
    // As many threads as a card has would be mostly for the machine to start: so blocks of 32, and as many threads in all.
    const int meet = failing() ? (int)fault("meet", 0) : 0;
    ((Stream *)stream)->put([=] {
        // Not for ever: who counts on it will see.
        for (int i = 0; busiest < meet && i < 10000; i++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        run_grid(blocks * (threads / 32), 32, kernel);
    });
    return 0;
}
