import Glibc

extension RawSocket {
    /// Receives until the last bytes are `end`.
    ///
    /// - Throws: `TestFailure` if the stream ends before.
    package func receive(through end: String) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while !bytes.suffix(end.utf8.count).elementsEqual(end.utf8) { bytes += try some("the end of \(end)") }
        return bytes
    }

    /// Receives and discards a head that ends in `end`, and `count` bytes after it.
    package func receive(through end: String, andThen count: Int) throws {
        var bytes: [UInt8] = []
        while true {
            bytes += try some("the end of a head")
            guard let place = bytes.firstRange(of: Array(end.utf8)) else { continue }
            return try receive(atLeast: count - (bytes.count - place.upperBound))
        }
    }

    /// Receives and discards at least `count` bytes.
    ///
    /// - Throws: `TestFailure` if the stream ends before.
    package func receive(atLeast count: Int) throws {
        var left = count
        while left > 0 { left -= try some("\(count) bytes").count }
    }

    /// Whether unread bytes have arrived, or the stream has ended.
    package var hasInput: Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return use { _ in poll(&entry, 1, 0) } != 0
    }

    /// Sends the bytes up to `times` times, until the kernel takes no more of them for now: the peer does not read.
    ///
    /// - Returns: how many bytes the kernel has taken.
    /// - Throws: `TestFailure` if the peer has closed or reset.
    @discardableResult
    package func sendUntilFull(_ bytes: [UInt8], times: Int = 20_000) throws -> Int {
        for number in 0..<times {
            var sent = 0
            while sent < bytes.count {
                let (count, failure) = bytes.withUnsafeBytes { buffer in
                    let rest = UnsafeRawBufferPointer(rebasing: buffer[sent...])
                    return use { (Glibc.send($0, rest.baseAddress, rest.count, CInt(MSG_NOSIGNAL)), errno) } ?? (
                        -1, EBADF
                    )
                }
                if count < 0, failure == EAGAIN { return number * bytes.count + sent }
                guard count >= 0 || failure == EINTR else { throw TestFailure("sending: errno \(failure)") }
                sent += max(count, 0)
            }
        }
        return times * bytes.count
    }

    /// The bytes that have arrived, at most `max`; nil: none have; empty: the stream has ended or was reset.
    package func receiveNow(max: Int) -> [UInt8]? {
        var wouldBlock = false
        let bytes = [UInt8](unsafeUninitializedCapacity: max) { buffer, count in
            let result = use { (recv($0, buffer.baseAddress, max, CInt(MSG_DONTWAIT)), errno) } ?? (0, 0)
            wouldBlock = result.0 < 0 && result.1 == EAGAIN
            count = Swift.max(result.0, 0)
        }
        return wouldBlock ? nil : bytes
    }

    private func some(_ what: String) throws -> [UInt8] {
        let bytes = try receive(max: 1 << 18)
        guard !bytes.isEmpty else { throw TestFailure("the stream ended before \(what)") }
        return bytes
    }
}
