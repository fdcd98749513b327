/// A user's place in the table of users: what the request path carries instead of a name.
package struct UserIndex: Hashable, Sendable {
    package let number: Int
    package init(_ number: Int) { self.number = number }
}
