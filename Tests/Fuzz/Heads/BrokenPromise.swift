/// What a reader did that it must not do for any input.
package struct BrokenPromise: Error, CustomStringConvertible {
    package let description: String

    init(_ words: StaticString) { description = words.description }

    /// Throws unless `holds`.
    @inline(__always)
    static func unless(_ holds: Bool, _ words: StaticString) throws(BrokenPromise) {
        if !holds { throw BrokenPromise(words) }
    }
}
