import CCurl

/// libcurl as a library that is loaded while the program runs (`late.h`).
package enum CurlLibrary {
    /// A longer reason is cut.
    private static let reasonBytesMax = 512

    /// Loads and initialises libcurl, unless that is done. Blocks as long as the disk does. From any thread.
    ///
    /// - Returns: why it cannot be used now; nil: it can. No failure is remembered: the next call tries again.
    package static func load() -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: reasonBytesMax) { reason -> String? in
            reason.initialize(repeating: 0)
            guard let first = reason.baseAddress, lanyard_curl_load(first, reason.count) == 0 else { return nil }
            return String(cString: first)
        }
    }
}
