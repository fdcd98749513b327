/// The fuzz heads, by the names of their corpora.
package enum FuzzHead: String, CaseIterable, Sendable {
    case request, response, chunked, target, challenge, yaml, json, store, tls

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
        }
    }
}
