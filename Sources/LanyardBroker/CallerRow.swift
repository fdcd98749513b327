import LanyardFoundations
import LanyardRequestPath
import LanyardSettings

/// A row of `callers`. A caller matches if it has all that the row asks for.
struct CallerRow {
    let settings: BrokerSettings.Caller
    /// By the place of the user id in the row.
    private let uidLabels: [String]
    private let names: [(names: TLSClientNames, label: String)]
    /// The place of the row's capability among those of a shard; nil: it asks for none.
    private let capability: Int?
    private let ownLabel: String

    /// - Parameter number: the row's place in the list.
    init(_ settings: BrokerSettings.Caller, number: Int, capability: Int?) {
        self.settings = settings
        self.capability = capability
        uidLabels = settings.uids.map { "uid:\($0)" }
        names = settings.clientNames.compactMap { name in TLSClientNames([name]).map { ($0, "name:\(name)") } }
        ownLabel = settings.capabilityFile == nil ? "anyone" : "capability:\(number)"
    }

    /// The caller as the log and the metrics name it; nil: the row is not about it.
    func caller(_ client: GrantClient, _ secrets: borrowing CallerSecrets) -> String? {
        var label = ownLabel
        if settings.capabilityFile != nil {
            guard let capability, capability < client.capabilities.count,
                let secret = client.capabilities[capability], secrets.has(secret)
            else { return nil }
        }
        if !settings.uids.isEmpty {
            guard let uid = client.uid, let place = settings.uids.firstIndex(of: uid) else { return nil }
            label = uidLabels[place]
        }
        if !settings.clientNames.isEmpty {
            guard let certificate = client.certificate, let found = names.first(where: { $0.names.allow(certificate) })
            else { return nil }
            label = found.label
        }
        return label
    }
}

/// What a caller has sent to show who it is. Valid during the call.
struct CallerSecrets: ~Copyable {
    private let field: Bytes?
    private let clientSecret: Secret?

    /// - Parameter field: the values of `Lanyard-Capability`; several are none.
    init(ofField values: [Bytes], clientSecret: Secret?) {
        field = values.count == 1 ? values[0] : nil
        self.clientSecret = clientSecret
    }

    /// Compares in constant time.
    borrowing func has(_ secret: Secret) -> Bool {
        let isInField = field.map { secret.equals(UnsafeRawBufferPointer($0)) } ?? false
        let isInBody = clientSecret.map { $0 == secret } ?? false
        return isInField || isInBody
    }
}
