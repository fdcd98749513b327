/// A file call of the store that failed. It changed nothing.
package struct DiskError: Error, Equatable, Sendable {
    /// `errno`.
    package var code: CInt
    /// A participle: "writing".
    package var doing: String

    package init(_ code: CInt, _ doing: String) {
        self.code = code
        self.doing = doing
    }
}
