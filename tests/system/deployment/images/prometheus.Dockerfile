FROM debian-base
USER nobody
ENTRYPOINT ["prometheus"]
