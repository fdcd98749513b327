import Synchronization

/// A user's index in the table of users. The request path carries it instead of a name.
package struct UserIndex: Hashable, Sendable {
    package let number: Int
    package init(_ number: Int) { self.number = number }
}

/// Distinguishes the accounts that the users of this process have had (threats.md T18).
///
/// Each change of account takes the next number. No number is used twice: neither for an account that comes back, nor
/// for a user that was removed and added again under the same name.
package struct AccountNumber: Hashable, Sendable {
    /// A user that has had no account yet.
    package static let unknown = AccountNumber(0)
    private static let latest = Atomic<UInt64>(0)

    private let number: UInt64
    package init(_ number: UInt64) { self.number = number }

    /// From any thread.
    package static func next() -> AccountNumber { AccountNumber(latest.add(1, ordering: .relaxed).newValue) }
}
