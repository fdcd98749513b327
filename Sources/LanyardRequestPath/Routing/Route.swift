import LanyardFoundations
import LanyardSettings

/// One route as the request path uses it: names and prefixes as bytes, made once.
package final class Route: Sendable {
    /// The methods that are denied below one prefix.
    private struct Denial: Sendable {
        /// Empty denies all.
        var methods: [[UInt8]]
    }

    /// The upstream as its URL names it.
    private struct UpstreamOrigin: Sendable {
        let authority: [UInt8]
        let isTLS: Bool
        let absoluteStart: [UInt8]?

        init(_ upstream: UpstreamSettings?) {
            authority = Array((upstream?.authority ?? "").utf8)
            if case .tcp(_, _, let isTLS) = upstream?.endpoint { self.isTLS = isTLS } else { isTLS = false }
            absoluteStart = upstream?.forwardingProxy == nil ? nil : Array("http://".utf8) + authority
        }
    }

    /// A field of `set_headers`.
    package struct FixedField: Sendable {
        package let name: [UInt8]
        /// The whole field, or what is before a value that a file holds.
        let start: FieldStart
        /// The place of that value among those of a shard's route; nil: no file holds it.
        let filePlace: Int?
    }

    package let settings: RouteSettings
    /// The index among the configured routes.
    package let index: Int
    package let prefix: PathPrefix
    /// In canonical form.
    let hosts: [[UInt8]]
    let methods: [[UInt8]]
    private let deniedPrefixes: PrefixTable
    /// In the order of `deniedPrefixes`.
    private let denials: [Denial]
    package let fixedFields: [FixedField]
    let bearerField: BearerField
    /// The name of the field for the request id.
    package let requestIDName: [UInt8]?
    /// Protocols that may be upgraded to.
    package let upgrades: [[UInt8]]
    /// `close_upgraded_on`.
    package let closesOnLogout: Bool
    package let closesOnSwitch: Bool
    /// `close_streams_on`.
    let closesStreamsOnLogout: Bool
    let closesStreamsOnSwitch: Bool
    var closesStreams: Bool { closesStreamsOnLogout || closesStreamsOnSwitch }
    /// A name that the route injects or sets has a byte other than letters, digits and `-`: ordinary names may look
    /// like it.
    package let hasConfusableNames: Bool
    /// The lengths of all names that the route injects, sets or maps. A field of another length has and resembles none of them.
    let ownNameLengths: NameLengths
    /// The upstream's base path without trailing slash; nil leaves the target as it is.
    package let basePath: [UInt8]?
    /// The upstream's path as configured, for a request that has just the prefix as its path.
    package let basePathAlone: [UInt8]
    /// `host.value`; empty: another policy.
    let hostValue: [UInt8]
    /// The upstream's references become client-side addresses.
    let mapsReferences: Bool
    /// The upstream's references to the `Host` that it has seen, the client's, are mapped.
    let mapsClientHost: Bool
    /// A client's own `Authorization` reaches the upstream, so that a client can authenticate a connection
    /// (http-connections.md 16.9).
    let passesAuthorization: Bool
    /// The lowest status of `reauthenticate_on`: most responses are below it.
    private let reauthenticatesFrom: Int
    /// `redirects.fields`.
    private let referenceNames: [[UInt8]]
    var hasReferenceNames: Bool { !referenceNames.isEmpty }
    private let origin: UpstreamOrigin
    /// The upstream's own `Host`.
    var authority: [UInt8] { origin.authority }
    var isUpstreamTLS: Bool { origin.isTLS }
    /// `http://` and the authority, with which a target begins that a proxy forwards; nil: targets are in origin form.
    var absoluteStart: [UInt8]? { origin.absoluteStart }
    /// The client's target is sent byte for byte.
    let keepsTarget: Bool
    /// The pinned user; nil follows the active one. It changes before a shard gets the route, and not afterwards.
    package private(set) nonisolated(unsafe) var user: UserIndex?

    /// - Parameter upstream: nil: no request is sent, and no reference of one is judged.
    package init(_ settings: RouteSettings, index: Int, user: UserIndex?, upstream: UpstreamSettings? = nil) {
        self.settings = settings
        origin = UpstreamOrigin(upstream)
        referenceNames = settings.redirects == .rewrite ? settings.redirectFields.map { Array($0.utf8) } : []
        self.index = index
        self.user = user
        prefix = PathPrefix(settings.path)
        hosts = settings.hosts.compactMap { CanonicalHost($0).map { Array($0.bracketed.utf8) } }
        methods = settings.methods.map { Array($0.utf8) }
        (deniedPrefixes, denials) = Self.compile(settings.deny)
        fixedFields = Self.compile(settings.setHeaders)
        bearerField = BearerField(settings)
        requestIDName = settings.requestIDHeader.map { Array($0.utf8) }
        upgrades = settings.upgrades.map { Array($0.utf8) }
        closesOnLogout = settings.closeUpgradedOn.contains(.logout)
        closesOnSwitch = settings.closeUpgradedOn.contains(.switch)
        closesStreamsOnLogout = settings.closeStreamsOn.contains(.logout)
        closesStreamsOnSwitch = settings.closeStreamsOn.contains(.switch)
        let names = [bearerField.name, requestIDName ?? []] + fixedFields.map(\.name)
        hasConfusableNames = names.joined().contains { !ByteClass.isAlphanumeric($0) && $0 != UInt8(ascii: "-") }
        var lengths = NameLengths()
        for name in names + referenceNames where !name.isEmpty { lengths.insert(name.count) }
        ownNameLengths = lengths
        let path = settings.upstreamPath.map { Array($0.utf8) }
        basePath = path.map { $0.last == UInt8(ascii: "/") ? Array($0.dropLast()) : $0 }
        basePathAlone = path ?? []
        keepsTarget = path == nil && origin.absoluteStart == nil
        if case .value(let value) = settings.host { hostValue = Array(value.utf8) } else { hostValue = [] }
        mapsClientHost = settings.host == .client && settings.redirects == .rewrite && path != nil
        mapsReferences = settings.redirects == .rewrite
        let isReplaced = names.contains { $0.withUnsafeBufferPointer { $0.equals(lowered: "authorization") } }
        passesAuthorization = !isReplaced || settings.clientAuthorization == .pass && bearerField.isAuthorization
        reauthenticatesFrom = settings.refusals.statuses.min() ?? .max
    }

    /// Sets the pinned user, of which only the name was known when the route was built.
    func bind(_ user: UserIndex) { self.user = user }

    // By pattern: `==` of an enum of another module is a call through its witness.

    /// Fields that say by whom the request was forwarded are dropped.
    @inline(__always) var dropsForwarding: Bool { if case .drop = settings.forwarded { true } else { false } }
    /// The client's address is added to them.
    @inline(__always) var appendsPeer: Bool { if case .append = settings.forwarded { true } else { false } }
    /// The client may send a credential of its own.
    @inline(__always)
    var passesCredential: Bool { if case .pass = settings.clientAuthorization { true } else { false } }

    /// Whether this status of the upstream means "token refused".
    package func reauthenticates(on status: Int) -> Bool {
        status >= reauthenticatesFrom && settings.refusals.statuses.contains(status)
    }

    /// `redirects.fields` names this field.
    func isReference(_ name: Bytes) -> Bool {
        referenceNames.contains { $0.withUnsafeBufferPointer { $0.equalsIgnoringCase(name) } }
    }

    func allows(method: Bytes) -> Bool { methods.isEmpty || methods.contains { $0.elementsEqual(method) } }

    func denies(method: Bytes, path: Bytes) -> Bool {
        !denials.isEmpty
            && deniedPrefixes.visit(path) { place in
                denials[place].methods.isEmpty || denials[place].methods.contains { $0.elementsEqual(method) }
            }
    }

    /// Something below a path is denied to a method. COPY and MOVE of a collection act on all of its members.
    func deniesBelow(method: Bytes, path: Bytes) -> Bool {
        let end = path.last == UInt8(ascii: "/") ? path.count - 1 : path.count
        return settings.deny.contains { entry in
            let denied = PathPrefix(entry.path).bytes
            return denied.count > end && denied[end] == UInt8(ascii: "/")
                && denied.prefix(end).elementsEqual(path[run: 0..<end])
                && (entry.methods.isEmpty || entry.methods.contains { $0.utf8.elementsEqual(method) })
        }
    }

    private static func compile(_ fields: [RouteSettings.Field]) -> [FixedField] {
        var fileCount = 0
        return fields.map { field in
            let name = Array(field.name.utf8)
            switch field.value {
            case .text(let text):
                return FixedField(name: name, start: FieldStart(field.name, text), filePlace: nil)
            case .file:
                defer { fileCount += 1 }
                return FixedField(name: name, start: FieldStart(field.name, ""), filePlace: fileCount)
            }
        }
    }

    private static func compile(_ deny: [RouteSettings.Denial]) -> (PrefixTable, [Denial]) {
        let prefixes = PrefixTable(deny.map { PathPrefix($0.path) })
        var denials: [Denial?] = Array(repeating: nil, count: prefixes.count)
        for entry in deny {
            guard let place = prefixes.place(of: PathPrefix(entry.path)) else { continue }
            let methods = entry.methods.map { Array($0.utf8) }
            let deniesAll = methods.isEmpty || denials[place]?.methods.isEmpty == true
            denials[place] = Denial(methods: deniesAll ? [] : (denials[place]?.methods ?? []) + methods)
        }
        return (prefixes, denials.compactMap { $0 })
    }
}
