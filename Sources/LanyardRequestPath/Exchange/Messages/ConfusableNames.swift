import LanyardSettings

/// Field names that an upstream cannot tell from others if it turns names into variables (http-forwarding.md 10.4,
/// security.md T9).
enum ConfusableNames {
    /// The name resembles a field of framing, routing or one hop: the request is refused. The caller asks only for names
    /// that are confusable, and so are no such field themselves.
    static func isRefused(_ name: Bytes) -> Bool {
        let read = FieldName.of(canonical: name)
        return read.refusesConfusableNames
    }

    /// The name resembles a field that the route injects or sets, `Lanyard-*`, or a forwarding field that the route
    /// does not allow.
    static func isDropped(_ name: Bytes, _ route: Route) -> Bool {
        if route.bearerField.resembles(name) { return true }
        let read = FieldName.of(canonical: name)
        if read == .lanyard { return true }
        switch route.settings.forwarded {
        case .drop, .reject: if read.isForwarding { return true }
        case .append: if read == .xRealIP { return true }
        case .pass: break
        }
        if let own = route.requestIDName, own.withUnsafeBufferPointer({ name.resembles($0) }) { return true }
        return route.fixedFields.contains { $0.name.withUnsafeBufferPointer { name.resembles($0) } }
    }

    /// An upstream's field resembles `Lanyard-*`, or the field that the route injects: an upstream that sends back what it received
    /// would show the token to the client.
    static func isDroppedInResponses(_ name: Bytes, isConfusable: Bool, _ route: Route?) -> Bool {
        if let route, route.bearerField.resembles(name) { return true }
        return isConfusable && FieldName.of(canonical: name) == .lanyard
    }
}
