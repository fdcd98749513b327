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
