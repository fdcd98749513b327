import Glibc

/// Whether the tests, and the programs built with them, run under a sanitizer: its shadow memory is terabytes of address space.
package enum Sanitizer {
    package static var isOn: Bool { dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil }
}
