FROM debian-base
WORKDIR /data
COPY redis-entrypoint /usr/local/bin/
ENTRYPOINT ["redis-entrypoint"]
CMD ["redis-server"]
