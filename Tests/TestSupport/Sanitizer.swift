import Glibc

/// Whether the tests, and the programs built with them, run under a sanitizer: its shadow memory is terabytes of address space.
package enum Sanitizer {
    package static var isOn: Bool { isThread || dlsym(nil, "__asan_init") != nil }
    package static var isThread: Bool { dlsym(nil, "__tsan_init") != nil }
    /// What a sanitizer was told by deploy/test, for processes that the tests start: their reports go into files as well.
    package static var options: [String: String] {
        var options: [String: String] = [:]
        for name in ["ASAN_OPTIONS", "TSAN_OPTIONS"] {
            if let value = getenv(name) { options[name] = String(cString: value) }
        }
        return options
    }

    /// By how much times are stretched that must be longer than what the test itself does meanwhile: everything is many times slower.
    package static let stretch = isOn ? 4 : 1
}
