import Glibc

/// Whether the tests and the programs built with them run under a sanitizer. Its shadow memory takes terabytes of address space.
package enum Sanitizer {
    package static var isOn: Bool { isThread || dlsym(nil, "__asan_init") != nil }
    package static var isThread: Bool { dlsym(nil, "__tsan_init") != nil }
    /// The sanitizer options that deploy/test sets, for processes that the tests start. Their reports go into files, too.
    package static var options: [String: String] {
        var options: [String: String] = [:]
        for name in ["ASAN_OPTIONS", "TSAN_OPTIONS"] {
            if let value = getenv(name) { options[name] = String(cString: value) }
        }
        return options
    }

    /// The factor for time limits of tests: a sanitized build is many times slower.
    package static let stretch = isOn ? 4 : 1
}
