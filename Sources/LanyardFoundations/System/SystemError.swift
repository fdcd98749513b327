import Glibc

/// A failed system call or setting: the side at fault, the kind, and what was being done.
///
/// `side` is also the value in the log and the metrics, so an operator sees the same value in all of them.
package struct SystemError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The side at fault.
    package enum Side: String, Sendable { case client, upstream, identity, local, configuration }

    package enum Kind: Equatable, Sendable {
        /// The bytes break a rule of their protocol.
        case malformed
        /// A deadline passed.
        case timedOut
        /// The other side ended too early.
        case closedEarly
        /// A named limit was exceeded.
        case tooLarge
        /// A system call failed; the value is `errno`.
        case system(CInt)
        /// libcurl failed; the value is its `CURLcode`.
        case curl(UInt32)
        /// OpenSSL failed; the value is its error code.
        case openSSL(UInt)
    }

    package let side: Side
    package let kind: Kind
    /// A participle: "reading Content-Length". Never holds a secret or a byte of a request.
    package let doing: String

    package init(_ side: Side, _ kind: Kind, _ doing: String) {
        self.side = side
        self.kind = kind
        self.doing = doing
    }

    package var description: String { "\(side.rawValue): \(kindText) while \(doing)" }

    /// `kind` as text for an operator: system errors by their `strerror_r` text.
    package var kindText: String {
        switch kind {
        case .malformed: "malformed"
        case .timedOut: "timed out"
        case .closedEarly: "closed early"
        case .tooLarge: "too large"
        case .system(let code): Errno.text(of: code)
        case .curl(let code): "libcurl error \(code)"
        case .openSSL(let code): "OpenSSL error \(String(code, radix: 16))"
        }
    }
}

/// The text of an `errno` value.
package enum Errno {
    /// `strerror_r`'s text, such as "Connection refused".
    package static func text(of code: CInt) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard strerror_r(code, buffer.baseAddress!, buffer.count) == 0 else { return "error \(code)" }
            return String(cString: buffer.baseAddress!)
        }
    }
}
