/// A user's index in the table of users. The request path carries it instead of a name.
package struct UserIndex: Hashable, Sendable {
    package let number: Int
    package init(_ number: Int) { self.number = number }
}
