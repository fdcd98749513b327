import LanyardRequestPath

/// A reader of heads as the fuzzing sees it: requests and responses obey the same promises.
protocol HeadRun {
    associatedtype Head: FuzzedHead

    /// Limits of the real thing.
    static var limits: HeadLimits { get }

    init()

    /// Reads on in `bytes`, the head's buffer from its first byte.
    mutating func read(_ bytes: Bytes, _ table: FieldTable, _ limits: HeadLimits) throws(HeadError) -> Head?

    /// Promises that only this kind of head makes.
    static func check(_ head: Head, _ table: FieldTable, _ bytes: Bytes) throws(BrokenPromise)

    /// Writes the start line that means the same, CRLF included.
    static func writeStartLine(_ head: Head, _ bytes: Bytes, _ text: HeadText)
}

/// What all heads have.
protocol FuzzedHead: Equatable {
    /// Bytes used.
    var length: Int { get }
    /// The same head when its bytes stand elsewhere: all that is an offset is set to zero.
    var withoutPlaces: Self { get }
}
