import LanyardSettings

/// Decides whether a request is forwarded and where to. http-rules.md 4.5 gives the order of the checks.
extension ClientConnection {
    enum Admission {
        case forward(Route, RequestTarget)
        /// `OPTIONS *`, or an OPTIONS with a `Max-Forwards` of 0.
        case respondToOptions
        case refuse(Problem)
    }

    func admit() -> Admission {
        guard let buffer = intake.buffer else { return .refuse(.internalError) }
        let bytes = buffer.bytes
        if intake.head.traits.contains(.odd), hasForbiddenLookAlike(bytes, buffer.table) {
            return .refuse(.malformed("a field name that resembles a field of framing or routing"))
        }
        do throws(HeadError) {
            let raw = bytes[run: intake.head.target]
            let target = intake.head.kind == .connect ? .root : try RequestTarget.parse(raw, method: intake.head.kind)
            if let problem = try checkAuthority(target, raw, bytes, buffer.table) { return .refuse(problem) }
            if let problem = checkOrigin(bytes, buffer.table) { return .refuse(problem) }
            if !isNamedClient { return .refuse(.certificateNotAllowed) }
            if rules.callers.checksRequests,
                let refusal = rules.callers.check(bytes, buffer.table, capabilities: shard.capabilities)
            {
                return .refuse(.callerNotAllowed(refusal))
            }
            if intake.head.kind == .connect || intake.head.kind == .trace {
                let allow = String(decoding: shard.context.routes.allowed, as: UTF8.self)
                return .refuse(.methodNotAllowed(allow, closes: intake.head.kind == .connect))
            }
            var isForLanyard = target.targetsServer(intake.head.kind)
            if intake.head.traits.contains(.maxForwards), intake.head.kind == .options {
                guard let forwards = maxForwards(bytes, buffer.table) else {
                    return .refuse(.malformed("a Max-Forwards that is not one number", closes: false))
                }
                if forwards == 0 { isForLanyard = true }
            }
            if intake.head.expectation == .unknown { return .refuse(.expectationFailed) }
            if isForLanyard { return .respondToOptions }
            return decideRoute(target, bytes, buffer.table)
        } catch {
            return .refuse(.malformed(error))
        }
    }

    private func decideRoute(_ target: RequestTarget, _ bytes: Bytes, _ table: FieldTable) -> Admission {
        let names = shard.context.routes.usesHosts && intake.head.host >= 0
        let host = names ? hostName(table.value(intake.head.host, in: bytes)) : nil
        let raw = bytes[run: intake.head.target]
        let path = raw[run: target.path]
        let decision =
            path.isEmpty
            ? Self.rootPath.withUnsafeBufferPointer {
                shard.context.routes.decide(method: bytes[run: intake.head.method], host: host, path: $0)
            } : shard.context.routes.decide(method: bytes[run: intake.head.method], host: host, path: path)
        switch decision {
        case .route(let route):
            // From here on a refusal counts for this route.
            intake.assign(route)
            if let problem = checkPolicy(route, bytes, table) { return .refuse(problem) }
            return .forward(route, target)
        case .none: return .refuse(.noRoute)
        case .methodNotAllowed(let allow): return .refuse(.methodNotAllowed(String(decoding: allow, as: UTF8.self)))
        case .denied(let route):
            intake.assign(route)
            return .refuse(.denied)
        case .ambiguous: return .refuse(.ambiguousPath)
        case .malformed:
            return .refuse(
                .malformed(
                    "an invalid percent escape or %00 in its path", closes: false))
        }
    }

    private static let rootPath = [UInt8(ascii: "/")]

    private func hostName(_ value: Bytes) -> Bytes? {
        HostValue.split(value).map { value[run: $0.host] }
    }

    /// Checks `Host` and the authority of an absolute target (http-rules.md 1.6, 4.1, 4.2).
    private func checkAuthority(
        _ target: RequestTarget, _ raw: Bytes, _ bytes: Bytes, _ table: FieldTable
    ) throws(HeadError) -> Problem? {
        var host: Bytes?
        var isAllowed = true
        if intake.head.host >= 0 {
            let value = table.value(intake.head.host, in: bytes)
            isAllowed = try allows(value)
            host = value
        }
        if case .absolute(let scheme, let authority) = target.form {
            guard raw[run: scheme].equals(lowered: rules.scheme) else { return .hostNotAllowed }
            if let host {
                // This check precedes the allow-list: a request that names two servers is malformed, even if one or both
                // are allowed (http-rules.md 1.6).
                guard sameAuthority(raw[run: authority], host) else {
                    throw .malformed("its target and its Host name different servers")
                }
            } else {
                // An HTTP/1.0 request may have no `Host`. Then the target's authority is checked.
                isAllowed = try allows(raw[run: authority])
            }
        }
        return isAllowed ? nil : .hostNotAllowed
    }

    private func allows(_ host: Bytes) throws(HeadError) -> Bool {
        switch rules.check(host: host, shard.context.routes) {
        case .malformed: throw .malformed("a Host that is not host[:port]")
        case .unknown: false
        case .allowed: true
        }
    }

    /// Compares host and port. A missing port is the default port of the scheme.
    private func sameAuthority(_ left: Bytes, _ right: Bytes) -> Bool {
        guard let a = HostValue.split(left), let b = HostValue.split(right) else { return false }
        return left[run: a.host].equalsIgnoringCase(right[run: b.host])
            && (a.port ?? rules.defaultPort) == (b.port ?? rules.defaultPort)
    }

    /// Refuses requests of web pages that are not allowed (http-rules.md 4.4).
    private func checkOrigin(_ bytes: Bytes, _ table: FieldTable) -> Problem? {
        guard !intake.head.traits.isDisjoint(with: [.origin, .secFetchSite]) else { return nil }
        var allowedByOrigin = false
        for index in 0..<table.count where table[index].name == .origin {
            guard rules.allows(origin: table.value(index, in: bytes)) else { return .originNotAllowed }
            allowedByOrigin = true
        }
        for index in 0..<table.count where table[index].name == .secFetchSite && !allowedByOrigin {
            let value = table.value(index, in: bytes)
            if value.equals(lowered: "cross-site") || value.equals(lowered: "same-site") { return .originNotAllowed }
        }
        return nil
    }

    private func maxForwards(_ bytes: Bytes, _ table: FieldTable) -> Int? {
        var number: Int?
        for index in 0..<table.count where table[index].name == .maxForwards {
            guard number == nil, let decimal = table.value(index, in: bytes).decimal else { return nil }
            number = decimal
        }
        return number
    }

    private func hasForbiddenLookAlike(_ bytes: Bytes, _ table: FieldTable) -> Bool {
        for index in 0..<table.count where table[index].isOdd && LookAlikes.isRefused(table.name(index, in: bytes)) {
            return true
        }
        return false
    }

    /// Checks the route's own rules.
    private func checkPolicy(_ route: Route, _ bytes: Bytes, _ table: FieldTable) -> Problem? {
        if route.settings.clientAuthorization == .reject {
            for index in 0..<table.count where route.bearerField.isNamed(table.name(index, in: bytes)) {
                return .authorizationNotAllowed
            }
        }
        if route.settings.forwarded == .reject, intake.head.traits.contains(.forwarding) { return .forwardedNotAllowed }
        if intake.head.traits.contains(.via), hasPassedHere(bytes, table) { return .loop }
        if let bodyBytesMax = route.settings.bodyBytesMax, case .length(let length) = intake.head.framing,
            length > bodyBytesMax
        {
            return .contentTooLarge
        }
        return nil
    }

    /// `Via` holds the pseudonym of this process (http-rules.md 18.1).
    private func hasPassedHere(_ bytes: Bytes, _ table: FieldTable) -> Bool {
        for index in 0..<table.count where table[index].name == .via {
            for member in FieldList(table.value(index, in: bytes)) {
                guard let space = member.firstIndex(where: ByteClass.isSpace) else { continue }
                let name = member[run: space..<member.count].trimmed
                let own = shard.context.viaName
                if name.count >= own.count,
                    own.withUnsafeBufferPointer({ $0.equalsIgnoringCase(name[run: 0..<own.count]) }),
                    name.count == own.count || ByteClass.isSpace(name[own.count])
                {
                    return true
                }
            }
        }
        return false
    }
}
