import LanyardSettings

/// The client's own URLs in a request's fields: `Destination` of COPY and MOVE, and the tags of `If` (RFC 4918 §10.3, §10.4).
///
/// A client writes them by the address at which it reaches Lanyard. The upstream knows another one, so they are mapped. What
/// they name is judged as a target first, since the upstream writes there with the user's token (http-forwarding.md 10.7).
struct ClientReferences {
    /// A reference, by whom it names.
    enum Reference {
        /// The client-side path without its query.
        case own(path: Range<Int>, hasOrigin: Bool)
        /// The upstream by its own name.
        case upstream(path: Range<Int>)
        /// No URI and no absolute path: what stands before its query.
        case relative(path: Range<Int>)
        /// A URI of another scheme. Some servers take its path all the same.
        case otherScheme
        case foreign(path: Range<Int>)
        /// It could be read in two ways.
        case malformed
    }

    /// Tags of a request's `If` lines. Judging one may take many readings of a path.
    private static let tagsMax = 64
    /// Folders of a target that a relative reference is read below.
    private static let foldersMax = 32

    private static let get = Array("GET".utf8)
    private static let put = Array("PUT".utf8)
    private static let delete = Array("DELETE".utf8)

    let route: Route
    /// The client's `Host`, or the authority of its target; empty: it has sent none.
    let clientHost: Bytes
    /// The client is reached by TLS.
    let isClientTLS: Bool

    /// The request whose references are judged.
    struct Request {
        let method: Bytes
        /// Without its query.
        let path: Bytes
        /// As its route was found by.
        let host: Bytes?
        /// `Overwrite` does not forbid that the destination is deleted first (RFC 4918 §9.8.4, §10.6).
        let overwrites: Bool

        var isCopy: Bool { Self.isCopy(method) }

        /// The methods that have a `Destination`.
        static func isCopy(_ method: Bytes) -> Bool { method.isEqual(to: "COPY") || method.isEqual(to: "MOVE") }

        /// What it does at its source, also in the words of other methods: a copy can be read.
        var sourceMethods: [[UInt8]] {
            [Array(method), ClientReferences.get] + (method.isEqual(to: "MOVE") ? [ClientReferences.delete] : [])
        }

        /// What it does at its destination.
        var destinationMethods: [[UInt8]] {
            [Array(method), ClientReferences.put] + (overwrites ? [ClientReferences.delete] : [])
        }

        /// What servers make of a relative reference: they resolve it from their root, from the target's folder, or from one
        /// above, as CouchDB does from its database. nil: the target has too many folders.
        func readings(of reference: Bytes) -> [[UInt8]]? {
            var targets = [Array(path)]
            if !PathViews.isSimple(path), let views = PathViews(path) { targets.append(views.normalized) }
            var readings: [[UInt8]] = []
            for target in targets {
                for end in target.indices where target[end] == UInt8(ascii: "/") {
                    guard readings.count < ClientReferences.foldersMax else { return nil }
                    readings.append(Array(target[...end]) + reference)
                }
            }
            return readings
        }

        func decide(_ path: [UInt8], _ routes: RouteTable) -> RouteTable.Decision {
            (path.isEmpty ? [UInt8(ascii: "/")] : path).withUnsafeBufferPointer {
                routes.decide(method: method, host: host, path: $0)
            }
        }
    }

    // MARK: Reading

    func read(_ value: Bytes) -> Reference {
        guard let first = value.first else { return .malformed }
        if first == UInt8(ascii: "/") {
            if value.count > 1, value[1] == UInt8(ascii: "/") || value[1] == UInt8(ascii: "\\") { return .malformed }
            return checked(value, .own(path: pathEnd(in: value, from: 0), hasOrigin: false))
        }
        guard let colon = value.firstIndex(where: { !Self.isSchemeByte($0) }), value[colon] == UInt8(ascii: ":") else {
            let path = pathEnd(in: value, from: 0)
            return Self.isPlainRelative(value[run: path]) ? checked(value, .relative(path: path)) : .malformed
        }
        let scheme = value[run: 0..<colon]
        let isTLS = scheme.equals(lowered: "https")
        guard isTLS || scheme.equals(lowered: "http") else { return .otherScheme }
        let start = colon + 3
        guard start <= value.count, value[colon + 1] == UInt8(ascii: "/"), value[colon + 2] == UInt8(ascii: "/") else {
            return .malformed
        }
        let end = value[start...].firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? value.count
        let path = pathEnd(in: value, from: end)
        // A server that decodes first reads another host and another path: `http://up%2fdenied/x`.
        guard !value[start..<end].contains(UInt8(ascii: "%")),
            let authority = Authority(value[run: start..<end], defaultPort: isTLS ? 443 : 80)
        else { return .malformed }
        // A proxy with TLS may stand before a listener without it.
        if isTLS || !isClientTLS, isClient(authority, isTLS: isTLS) {
            return checked(value, .own(path: path, hasOrigin: true))
        }
        return isUpstream(authority) ? checked(value, .upstream(path: path)) : .foreign(path: path)
    }

    /// The bytes must be those of a target (http-requests.md 1.5).
    private func checked(_ value: Bytes, _ reference: Reference) -> Reference {
        value.allSatisfy(ByteClass.isTarget) ? reference : .malformed
    }

    private func pathEnd(in value: Bytes, from start: Int) -> Range<Int> {
        start..<(value[start...].firstIndex(of: UInt8(ascii: "?")) ?? value.count)
    }

    /// It stays relative for a server that decodes it first, and for one that reads a backslash as a slash.
    private static func isPlainRelative(_ path: Bytes) -> Bool {
        if path.first == UInt8(ascii: "\\") { return false }
        for start: StaticString in ["%5c", "%2f", "%20"] where path.hasPrefix(lowered: start) { return false }
        let segment = path[run: 0..<(path.firstIndex(of: UInt8(ascii: "/")) ?? path.count)]
        return !segment.contains(UInt8(ascii: ":")) && place(of: "%3a", in: segment) == nil
    }

    /// Where an escape begins. nil: it is not there.
    private static func place(of escape: StaticString, in value: Bytes) -> Int? {
        value.indices.first {
            value[$0] == UInt8(ascii: "%") && value[run: $0..<value.count].hasPrefix(lowered: escape)
        }
    }

    /// A control character, escaped: some servers drop it behind the decoding, so that the path is another one for them.
    private static func hasEscapedControl(_ value: Bytes) -> Bool {
        value.indices.contains { index in
            guard value[index] == UInt8(ascii: "%"), index + 2 < value.count else { return false }
            let high = value[index + 1]
            return high == UInt8(ascii: "0") || high == UInt8(ascii: "1")
                || high == UInt8(ascii: "7") && ByteClass.lower(value[index + 2]) == UInt8(ascii: "f")
        }
    }

    /// A path without origin of which the upstream gets two slashes at its front, for a server that decodes it first: an authority.
    private func mayNameHost(_ path: Bytes) -> Bool {
        guard route.basePath?.isEmpty ?? true else { return false }
        let rest = path[run: (route.basePath == nil ? 0 : route.prefix.end(in: path))..<path.count]
        for start: StaticString in ["//", "/\\", "/%2f", "/%5c"] where rest.hasPrefix(lowered: start) { return true }
        return false
    }

    private static func isSchemeByte(_ byte: UInt8) -> Bool {
        ByteClass.isAlphanumeric(byte) || byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-")
            || byte == UInt8(ascii: ".")
    }

    private func isClient(_ found: Authority, isTLS: Bool) -> Bool {
        Authority(clientHost, defaultPort: isTLS ? 443 : 80).map { $0 == found } ?? false
    }

    private func isUpstream(_ found: Authority) -> Bool {
        let defaultPort: UInt16 = route.isUpstreamTLS ? 443 : 80
        // By either scheme: what the upstream makes of the scheme is not known.
        func isSame(_ own: Bytes) -> Bool {
            guard let own = Authority(own, defaultPort: defaultPort), own.hasHost(of: found) else { return false }
            return own.port == found.port || own.port == defaultPort && (found.port == 80 || found.port == 443)
        }
        if route.authority.withUnsafeBufferPointer(isSame) { return true }
        switch route.settings.host {
        case .upstream: return false
        case .client: return isSame(clientHost)
        case .value: return route.hostValue.withUnsafeBufferPointer(isSame)
        }
    }

    /// Calls `body` with the places of the references in a value.
    ///
    /// - Returns: false: the value has not the form of the field, or `body` has ended it.
    func forEach(_ name: FieldName, in value: Bytes, _ body: (Range<Int>) -> Bool) -> Bool {
        if name == .destination { return body(0..<value.count) }
        var tags = ConditionTags(value)
        while let tag = tags.next() {
            guard body(tag) else { return false }
        }
        return !tags.isMalformed
    }

    // MARK: Judging

    /// Judges all references of a request.
    ///
    /// - Parameter request: whose `lines` they are.
    /// - Returns: nil: all may pass.
    func check(_ lines: FieldLines, in head: Bytes, of request: Request, _ routes: RouteTable) -> Problem? {
        if request.isCopy, let problem = denial(of: request.path, asAny: request.sourceMethods) { return problem }
        var problem: Problem?
        var (destinations, tags) = (0, 0)
        for index in 0..<lines.count where lines[index].name == .destination || lines[index].name == .condition {
            if lines[index].name == .destination { destinations += 1 }
            let value = lines.value(index, in: head)
            let isReadable = forEach(lines[index].name, in: value) { place in
                let isTag = lines[index].name == .condition
                if isTag { tags += 1 }
                guard tags <= Self.tagsMax else { return false }
                let reference = value[run: place]
                problem = judgeAsWritten(reference, isTag: isTag, of: request, routes)
                // Some servers decode before they look for a query.
                if problem == nil, isTag || request.isCopy, let end = Self.place(of: "%3f", in: reference) {
                    problem = judgeAsWritten(reference[run: 0..<end], isTag: isTag, of: request, routes)
                }
                return problem == nil
            }
            if problem == nil, !isReadable { problem = Self.malformed }
            if let problem { return problem }
        }
        return destinations > 1 && request.isCopy ? Self.malformed : nil
    }

    private static let malformed = Problem.malformed(
        "a Destination or an If that two servers could read in different ways", closes: false)

    private func judgeAsWritten(
        _ reference: Bytes, isTag: Bool, of request: Request, _ routes: RouteTable
    ) -> Problem? {
        if let problem = judge(reference, isTag: isTag, of: request, routes) { return problem }
        return isTag || !request.isCopy ? nil : judgeWriting(reference, of: request)
    }

    private func judge(_ value: Bytes, isTag: Bool, of request: Request, _ routes: RouteTable) -> Problem? {
        // Other methods may use a field of the name for something else: of theirs, only what surely is the client's URL is judged.
        let isReference = isTag || request.isCopy
        if isReference, Self.hasEscapedControl(value) { return Self.malformed }
        switch read(value) {
        case .malformed: return isReference ? Self.malformed : nil
        case .own(let place, let hasOrigin):
            let path = Array(value[run: place])
            if isReference, !hasOrigin, mayNameHost(value[run: place]) { return Self.malformed }
            return isReference || hasOrigin
                ? judge(path, request, routes) : denial(of: path, isReference: false, request, routes)
        case .relative(let place):
            guard isReference else { return nil }
            return isTag ? Self.malformed : judge(relative: value[run: place], request, routes)
        case .otherScheme: return isReference && !isTag ? Self.malformed : nil
        case .upstream(let place):
            guard let path = clientPath(of: value[run: place]) else { return isReference ? .denied : nil }
            return isReference
                ? judge(path, request, routes) : denial(of: path, isReference: false, request, routes)
        case .foreign(let place):
            // Some upstreams do not look at the origin. So a denied path stays denied; what else it names is not Lanyard's.
            if isReference, !route.settings.deny.isEmpty {
                guard value.allSatisfy(ByteClass.isTarget) else { return Self.malformed }
                if clientPath(of: value[run: place]) == nil, Self.hasOtherSpelling(value[run: place]) {
                    return .ambiguousPath
                }
            }
            return clientPath(of: value[run: place]).flatMap {
                denial(of: $0, isReference: isReference, request, routes)
            }
        }
    }

    /// Judges a `Destination` that may pass as a target: the upstream writes there, whatever the request's own method is called.
    private func judgeWriting(_ value: Bytes, of request: Request) -> Problem? {
        guard !route.settings.deny.isEmpty else { return nil }
        let path: [UInt8]? =
            switch read(value) {
            case .own(let place, _): Array(value[run: place])
            case .upstream(let place), .foreign(let place): clientPath(of: value[run: place])
            case .relative, .otherScheme, .malformed: nil
            }
        guard let path else { return nil }
        return (path.isEmpty ? [UInt8(ascii: "/")] : path).withUnsafeBufferPointer {
            denial(of: $0, asAny: request.destinationMethods)
        }
    }

    /// Whether the route denies a path to one of other methods. What a request does there counts, not its own name alone.
    private func denial(of path: Bytes, asAny methods: [[UInt8]]) -> Problem? {
        guard !route.settings.deny.isEmpty else { return nil }
        for method in methods {
            let denial = method.withUnsafeBufferPointer { RouteTable.denial(by: route, of: $0, path) }
            switch denial {
            case .denied: return .denied
            case .ambiguous: return .ambiguousPath
            case .none: break
            }
        }
        return nil
    }

    /// A server may read the path as another one: what the route denies may be behind it.
    private static func hasOtherSpelling(_ path: Bytes) -> Bool {
        path.indices.contains { index in
            switch path[index] {
            case UInt8(ascii: "%"), UInt8(ascii: "\\"), UInt8(ascii: ";"): true
            case UInt8(ascii: "/"):
                index + 1 < path.count && (path[index + 1] == UInt8(ascii: "/") || path[index + 1] == UInt8(ascii: "."))
            default: false
            }
        }
    }

    private func judge(_ path: [UInt8], _ request: Request, _ routes: RouteTable) -> Problem? {
        switch request.decide(path, routes) {
        case .route(let found): return found === route ? nil : .denied
        case .none, .methodNotAllowed, .denied: return .denied
        case .ambiguous: return .ambiguousPath
        case .malformed: return Self.malformed
        }
    }

    /// Judges a relative `Destination` by all that servers make of it. It is not mapped, so with a path of the upstream's own the
    /// first reading leads out of the route.
    private func judge(relative reference: Bytes, _ request: Request, _ routes: RouteTable) -> Problem? {
        guard route.basePath == nil, let readings = request.readings(of: reference) else { return Self.malformed }
        for path in readings {
            if let problem = judge(path, request, routes) { return problem }
            let problem = path.withUnsafeBufferPointer { denial(of: $0, asAny: request.destinationMethods) }
            if let problem { return problem }
        }
        return nil
    }

    /// Judges a path only by what the route denies.
    ///
    /// - Parameter isReference: the upstream acts on what the path names. A path that cannot be read may be a denied one for it.
    private func denial(
        of path: [UInt8], isReference: Bool, _ request: Request, _ routes: RouteTable
    ) -> Problem? {
        guard !route.settings.deny.isEmpty else { return nil }
        switch request.decide(path, routes) {
        case .denied: return .denied
        case .ambiguous: return .ambiguousPath
        case .malformed: return isReference ? Self.malformed : nil
        case .route, .none, .methodNotAllowed: return nil
        }
    }

    /// A path of the upstream's as the client asks for it; nil: the route does not lead there.
    private func clientPath(of path: Bytes) -> [UInt8]? {
        guard let base = route.basePath else { return Array(path) }
        guard path.starts(with: base), path.count == base.count || path[base.count] == UInt8(ascii: "/") else {
            return nil
        }
        return route.prefix.bytes + path[run: base.count..<path.count]
    }

    // MARK: Writing

    /// Whether `write` changes the value of a request that `check` has passed.
    func changes(_ name: FieldName, _ value: Bytes, method: Bytes) -> Bool {
        var isChanged = false
        _ = forEach(name, in: value) { place in
            if mapped(value[run: place], name, method) != nil { isChanged = true }
            return true
        }
        return isChanged
    }

    /// Writes the value with the upstream's URLs in place of the client's.
    ///
    /// - Parameter authority: the `Host` that the upstream gets.
    func write(
        _ name: FieldName, _ value: Bytes, method: Bytes, authority: [UInt8], into out: inout some ByteSink & ~Copyable
    ) {
        var written = 0
        _ = forEach(name, in: value) { place in
            let text = value[run: place]
            guard let (path, hasOrigin) = mapped(text, name, method) else { return true }
            out.write(value[run: written..<place.lowerBound])
            if hasOrigin {
                out.write(route.isUpstreamTLS ? "https://" : "http://" as StaticString)
                out.write(authority)
            }
            RequestHeadWriter.writePath(text[run: path], on: route, into: &out)
            out.write(text[run: path.upperBound..<text.count])
            written = place.upperBound
            return true
        }
        out.write(value[run: written..<value.count])
    }

    /// The place of the path in a reference that is mapped; nil: it stays as it is.
    private func mapped(_ reference: Bytes, _ name: FieldName, _ method: Bytes) -> (path: Range<Int>, hasOrigin: Bool)?
    {
        guard case .own(let path, let hasOrigin) = read(reference) else { return nil }
        if hasOrigin { return (path, true) }
        let isReference = name == .condition || Request.isCopy(method)
        return isReference && route.basePath != nil ? (path, false) : nil
    }

    /// The client's `Host`, else the authority of its target; empty: it has sent neither.
    static func host(of head: RequestHead, _ target: RequestTarget, _ lines: FieldLines, in bytes: Bytes) -> Bytes {
        if head.host >= 0 { return lines.value(head.host, in: bytes) }
        guard case .absolute(let authority) = target.form else { return Bytes(start: nil, count: 0) }
        return bytes[run: head.target][run: authority]
    }
}

/// The places of the resource tags in an `If` value (RFC 4918 §10.4.2): what stands in angle brackets outside of the
/// parenthesised lists of conditions.
struct ConditionTags: IteratorProtocol {
    private let value: Bytes
    private var position = 0
    /// The value has not the form of the field. Known at the end.
    private(set) var isMalformed = false

    init(_ value: Bytes) { self.value = value }

    mutating func next() -> Range<Int>? {
        while position < value.count {
            let byte = value[position]
            position += 1
            if ByteClass.isSpace(byte) { continue }
            if byte == UInt8(ascii: "<") {
                let start = position
                guard skip(to: UInt8(ascii: ">")) else { break }
                return start..<(position - 1)
            }
            guard byte == UInt8(ascii: "("), skipConditions() else { break }
            if position == value.count { return nil }
        }
        // An empty value, and one that has ended within a part.
        isMalformed = true
        return nil
    }

    /// Skips to behind the next `byte`.
    ///
    /// - Returns: false: there is none.
    private mutating func skip(to byte: UInt8) -> Bool {
        guard let end = value[position...].firstIndex(of: byte) else { return false }
        position = end + 1
        return true
    }

    /// Skips a list of state tokens and entity tags, in whose quotes a parenthesis is text.
    private mutating func skipConditions() -> Bool {
        while position < value.count {
            let byte = value[position]
            position += 1
            switch byte {
            case UInt8(ascii: ")"): return true
            case UInt8(ascii: "<"): if !skip(to: UInt8(ascii: ">")) { return false }
            case UInt8(ascii: "\""): if !skip(to: UInt8(ascii: "\"")) { return false }
            case UInt8(ascii: "("): return false
            default: break
            }
        }
        return false
    }
}
