import LanyardRequestPath

/// The fuzz heads, by the names of their corpora.
package enum FuzzHead: String, CaseIterable, Sendable {
    case request, response, chunked, target, challenge, yaml, json, store, tls, number
    case http2Client = "http2-client"
    case http2Upstream = "http2-upstream"

    /// The reader and its promises.
    package func target() -> any FuzzTarget {
        switch self {
        case .request: HeadFuzz<RequestRun>()
        case .response: HeadFuzz<ResponseRun>()
        case .chunked: ChunkedFuzz()
        case .target: TargetFuzz()
        case .challenge: ChallengeFuzz()
        case .yaml: YAMLFuzz()
        case .json: JSONFuzz()
        case .store: StoreFuzz()
        case .tls: TLSFuzz()
        case .number: NumberFuzz()
        case .http2Client: HTTP2Fuzz(.server)
        case .http2Upstream: HTTP2Fuzz(.client)
        }
    }
}

/// A reader under test together with what it promises for every input.
package protocol FuzzTarget: AnyObject {
    /// Feeds the reader `input`, whole and in pieces, and compares.
    func check(_ input: Bytes) throws(BrokenPromise)
}

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
