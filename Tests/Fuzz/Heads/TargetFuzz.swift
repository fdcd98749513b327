import LanyardRequestPath
import LanyardSettings

/// Holds the parsers of target, path and Host to their promises. An input is a target, a line feed and a Host value; without line
/// feed it is both.
final class TargetFuzz: FuzzTarget {
    private static let bytesMax = 8 << 10

    private let startRoom = GuardedRoom(capacity: bytesMax)
    private let endRoom = GuardedRoom(capacity: bytesMax)
    private let text = HeadText(capacity: 3 * bytesMax)
    private let table = FieldTable(capacity: 8)
    private let anyHost = AllowedHosts(nil)
    private let someHosts = AllowedHosts(["localhost:7400", "127.0.0.1:7400", "web:80"])
    private let routes = TargetFuzz.routeTable()

    func check(_ input: Bytes) throws(BrokenPromise) {
        let bytes = input[run: 0..<min(input.count, Self.bytesMax)]
        let cut = bytes.firstIndex(of: 0x0a)
        let target = bytes[run: 0..<(cut ?? bytes.count)]
        let host = bytes[run: (cut.map { $0 + 1 } ?? 0)..<bytes.count]
        try checkHost(host)
        let hasCertificate = target.count > 0 && target.allSatisfy(ByteClass.isTarget)
        if hasCertificate { try checkTarget(target) }
        try checkRead(target, host, hasCertificate: hasCertificate && Self.beginsTarget(target[0]))
    }

    /// Of a path, a URL or `*`: what begins otherwise is refused at once (http-requests.md 1.2).
    private static func beginsTarget(_ byte: UInt8) -> Bool { ByteClass.isLetter(byte) || "/*".utf8.contains(byte) }

    // MARK: - In a request

    /// The request line takes the target byte for byte, and the Host line its value, or the request is refused.
    private func checkRead(_ target: Bytes, _ host: Bytes, hasCertificate: Bool) throws(BrokenPromise) {
        text.clear()
        text.add("GET ")
        text.add(target)
        text.add(" HTTP/1.1\r\nHost: ")
        text.add(host)
        text.add("\r\n\r\n")
        var reader = RequestReader()
        var cuts = FuzzCuts(text.bytes)
        var end = 0
        var head: RequestHead?
        do throws(HeadError) {
            while head == nil, end < text.bytes.count {
                end = cuts.end(from: end, of: text.bytes.count)
                head = try reader.read(text.bytes[run: 0..<end], into: table, limits: RequestRun.limits)
            }
        } catch {
            head = nil
        }
        // A line end within the value makes other fields of it.
        let isPlain = host.allSatisfy(ByteClass.isValue)
        guard hasCertificate, isPlain else {
            return try BrokenPromise.unless(
                head == nil || hasCertificate, "a target was accepted with bytes that it cannot have")
        }
        guard let head else { throw BrokenPromise("a sound target or Host line was refused") }
        try BrokenPromise.unless(
            text.bytes[run: head.target].elementsEqual(target), "the target is not the one that was sent")
        try BrokenPromise.unless(
            table.value(head.host, in: text.bytes).elementsEqual(host.trimmed), "the Host is not the one that was sent")
    }

    // MARK: - Target

    private func checkTarget(_ target: Bytes) throws(BrokenPromise) {
        let get = parse(endRoom.atEnd(target), .get)
        let options = parse(startRoom.atStart(target), .options)
        guard let parsed = options else {
            return try BrokenPromise.unless(get == nil, "GET may ask what OPTIONS may not")
        }
        if parsed.form == .asterisk {
            return try BrokenPromise.unless(get == nil && target.count == 1, "* belongs to OPTIONS only")
        }
        try BrokenPromise.unless(get == parsed, "GET and OPTIONS take the same target apart in two ways")
        try checkParts(parsed, target)
        try checkPath(target[run: parsed.path])
        if case .absolute(let authority) = parsed.form { try checkHost(target[run: authority]) }
    }

    private func parse(_ target: Bytes, _ method: RequestHead.Method) -> RequestTarget? {
        try? RequestTarget.parse(target, method: method)
    }

    /// The parts lie one behind the other and are the whole target.
    private func checkParts(_ parsed: RequestTarget, _ target: Bytes) throws(BrokenPromise) {
        let (path, query) = (target[run: parsed.path], target[run: parsed.query])
        try BrokenPromise.unless(
            parsed.path.upperBound == parsed.query.lowerBound && parsed.query.upperBound == target.count,
            "path and query are not the target's end")
        try BrokenPromise.unless(!path.contains(UInt8(ascii: "?")), "a query within the path")
        try BrokenPromise.unless(query.isEmpty || query[0] == UInt8(ascii: "?"), "a query without its mark")
        let scheme = parsed.scheme
        guard case .absolute(let authority) = parsed.form else {
            return try BrokenPromise.unless(
                parsed.path.lowerBound == 0 && path[0] == UInt8(ascii: "/"), "an origin-form that is no path")
        }
        try BrokenPromise.unless(
            scheme.lowerBound == 0 && !scheme.isEmpty && scheme.upperBound + 3 == authority.lowerBound
                && authority.upperBound == parsed.path.lowerBound && !authority.isEmpty,
            "scheme, authority and path are not the target")
        try BrokenPromise.unless(path.isEmpty || path[0] == UInt8(ascii: "/"), "a path that is part of the authority")
        try BrokenPromise.unless(
            !target[run: authority].contains { "/?#@".utf8.contains($0) },
            "an authority with more in it than host and port")
    }

    // MARK: - Path

    private func checkPath(_ path: Bytes) throws(BrokenPromise) {
        guard path.count > 0 else { return }
        let isSimple = PathViews.isSimple(path)
        let views = PathViews(endRoom.atEnd(path))
        if isSimple {
            try BrokenPromise.unless(
                views.map { $0.plain.elementsEqual(path) && $0.normalized.elementsEqual(path) && !$0.escapesRoot }
                    ?? false,
                "a simple path has two views")
        }
        if let views { try checkNormalized(views.normalized) }
        try checkVerdict(path, views)
    }

    /// Nothing is left in the normalised view that a reader could still take for a step.
    private func checkNormalized(_ normalized: [UInt8]) throws(BrokenPromise) {
        try BrokenPromise.unless(normalized.first == UInt8(ascii: "/"), "a normalised view that is no path")
        var previous: UInt8 = 0
        for (index, byte) in normalized.enumerated() {
            try BrokenPromise.unless(
                byte != UInt8(ascii: "\\") && byte != UInt8(ascii: ";"), "a normalised view with a separator in it")
            guard previous == UInt8(ascii: "/") else {
                previous = byte
                continue
            }
            let segment = normalized[index...].prefix { $0 != UInt8(ascii: "/") }
            try BrokenPromise.unless(
                byte != UInt8(ascii: "/") && !segment.elementsEqual(".".utf8) && !segment.elementsEqual("..".utf8),
                "a normalised view with a step in it")
            previous = byte
        }
    }

    /// What is forwarded stays below the route's prefix and out of what it denies, however obligingly it is read.
    private func checkVerdict(_ path: Bytes, _ views: PathViews?) throws(BrokenPromise) {
        let method: StaticString = "GET"
        let name = Bytes(start: method.utf8Start, count: method.utf8CodeUnitCount)
        switch routes.decide(method: name, host: nil, path: path) {
        case .route(let route):
            guard let views else { throw BrokenPromise("a malformed path was forwarded") }
            try BrokenPromise.unless(!views.escapesRoot, "a path that leaves the root was forwarded")
            let isBelow =
                views.plain.withUnsafeBufferPointer(route.prefix.matches)
                && views.normalized.withUnsafeBufferPointer(route.prefix.matches)
            try BrokenPromise.unless(isBelow, "a path was forwarded that leaves its route")
            let ordinary = OrdinaryPath(Array(path))
            guard route.settings.name == "api" else {
                return try BrokenPromise.unless(ordinary.isBelow("/s/"), "an ordinary server would leave the route")
            }
            try BrokenPromise.unless(
                ordinary.isBelow("/api/") && !ordinary.isBelow("/api/admin/"),
                "an ordinary server would leave the route, or see what it denies")
            let denied = PathPrefix("/api/admin")
            try BrokenPromise.unless(
                !denied.matches(path) && !views.plain.withUnsafeBufferPointer(denied.matches)
                    && !views.normalized.withUnsafeBufferPointer(denied.matches), "a denied path was forwarded")
        case .malformed: try BrokenPromise.unless(views == nil, "a sound path is called malformed")
        case .none, .methodNotAllowed, .denied, .ambiguous:
            try BrokenPromise.unless(views != nil, "a malformed path is called something else")
        }
    }

    private static func routeTable() -> RouteTable {
        var api = RouteSettings(name: "api")
        (api.path, api.deny) = ("/api", [.init(path: "/api/admin")])
        var strict = RouteSettings(name: "strict")
        (strict.path, strict.paths) = ("/s", .strict)
        return RouteTable([Route(api, index: 0, user: nil), Route(strict, index: 1, user: nil)])
    }

    // MARK: - Host

    private func checkHost(_ value: Bytes) throws(BrokenPromise) {
        let bytes = startRoom.atStart(value)
        let split = HostValue.split(bytes)
        let again = HostValue.split(endRoom.atEnd(value))
        try BrokenPromise.unless(
            split?.host == again?.host && split?.port == again?.port, "one Host value, two meanings")
        let verdict = anyHost.check(bytes)
        try BrokenPromise.unless(
            (verdict == .allowed) == (split != nil || value.isEmpty), "a listener that takes any host judges otherwise")
        switch someHosts.check(bytes) {
        case .malformed: try BrokenPromise.unless(split == nil, "a sound Host is called malformed")
        case .unknown: try BrokenPromise.unless(split != nil, "a malformed Host is called unknown")
        case .allowed: try BrokenPromise.unless(split != nil, "a malformed Host is allowed")
        }
        guard let (host, port) = split else { return }
        try BrokenPromise.unless(host.lowerBound == 0 && !host.isEmpty, "a Host value without host")
        try BrokenPromise.unless(
            bytes[run: host].allSatisfy { $0 > 0x20 && $0 < 0x7f && !"/?#@\\,\"<>^`{|}".utf8.contains($0) },
            "a host with bytes that it cannot have")
        guard let port else {
            return try BrokenPromise.unless(
                host.upperBound == bytes.count, "something behind the host is not looked at")
        }
        try BrokenPromise.unless(
            bytes[host.upperBound] == UInt8(ascii: ":")
                && bytes[run: (host.upperBound + 1)..<bytes.count].decimal == Int(port), "the port is another")
    }
}
