import LanyardRequestPath

/// A reader under test together with what it promises for every input.
package protocol FuzzTarget: AnyObject {
    /// Feeds the reader `input`, whole and in pieces, and compares.
    func check(_ input: Bytes) throws(BrokenPromise)
}
