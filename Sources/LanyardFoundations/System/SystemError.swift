import Glibc

/// A failed system call or setting: the side at fault, the kind, and what was being done.
///
/// A type of its own, because no later code decides by it: the start ends and logs it, or one connection ends.
package struct SystemError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The side at fault: this machine, or the configuration.
    package enum Side: String, Sendable { case machine, configuration }

    /// What failed.
    package enum Kind: Equatable, Sendable {
        /// The value of a setting cannot be used.
        case malformed
        /// A socket's path is empty or longer than the system allows.
        case tooLarge
        /// A system call failed; the value is `errno`.
        case system(CInt)
    }

    /// The side at fault.
    package let side: Side
    /// What failed.
    package let kind: Kind
    /// A participle: "watching a descriptor". Never holds a secret or a byte of a request.
    package let doing: String

    package init(_ side: Side, _ kind: Kind, _ doing: String) {
        self.side = side
        self.kind = kind
        self.doing = doing
    }

    /// One line for the log: side, kind, and what was being done.
    package var description: String { "\(side.rawValue): \(kindText) while \(doing)" }

    /// `kind` as text for an operator: system errors by their `strerror_r` text.
    package var kindText: String {
        switch kind {
        case .malformed: "malformed"
        case .tooLarge: "too large"
        case .system(let code): Errno.text(of: code)
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
